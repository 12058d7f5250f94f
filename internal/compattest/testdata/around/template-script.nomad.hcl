job "template-script" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x; until test -e local/done; do sleep 0.1; done; cat local/done
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/template-script" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "script"
        change_script {
          command = "/bin/sh"
          args    = ["-c", "cp local/x local/done.new; mv local/done.new local/done"]
        }
      }
    }
  }
}
