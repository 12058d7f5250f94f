job "template-env-change" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          echo "$WORD"; test "$WORD" = two && exit 0; exec sleep 600
          EOF
        ]
      }
      template {
        data        = <<-EOF
          WORD={{ with nomadVar "nomad/jobs/template-env-change" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        env         = true
      }
    }
  }
}
