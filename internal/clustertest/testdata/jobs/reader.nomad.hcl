# Writes what it reads of a variable and of another job's service, and is told when that changes.

job "reader" {
  type      = "service"
  node_pool = "edge"

  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'cat local/out' HUP; cat local/out; while true; do sleep 0.1; done"]
      }
      template {
        data          = <<-T
          {{ with nomadVar "nomad/jobs/reader" }}{{ .greeting }}{{ end }}, {{ range nomadService "plain" }}{{ .Name }} at {{ .Port }}{{ end }}
        T
        destination   = "local/out"
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
