job "template-once" {
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
          {{ with nomadVar "nomad/jobs/template-once" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        once        = true
      }
    }
  }
}
