job "template-restart" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x; grep -q two local/x && exit 0; exec sleep 600
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/template-restart" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "restart"
      }
    }
  }
}
