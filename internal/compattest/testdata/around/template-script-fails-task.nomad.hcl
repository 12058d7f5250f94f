job "template-script-fails-task" {
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
          {{ with nomadVar "nomad/jobs/template-script-fails-task" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "script"
        change_script {
          command       = "/bin/sh"
          args          = ["-c", "exit 3"]
          fail_on_error = true
        }
      }
    }
  }
}
