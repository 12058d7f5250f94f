job "template-noop" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x; until grep -q two local/x; do sleep 0.1; done; cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/template-noop" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "noop"
      }
    }
  }
}
