job "template-script-slow" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x; exec sleep 600
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/template-script-slow" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "script"
        change_script {
          command = "/bin/sh"
          args    = ["-c", "sleep 600"]
          timeout = "1s"
        }
      }
    }
  }
}
