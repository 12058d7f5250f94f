job "template-signal" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x; trap 'echo hup; cat local/x; exit 0' HUP; while :; do sleep 0.1; done
          EOF
        ]
      }
      template {
        data          = <<-EOF
          {{ with nomadVar "nomad/jobs/template-signal" }}{{ .word }}{{ end }}
          EOF
        destination   = "local/x"
        splay         = "0s"
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }
    }
  }
}
