# Example: `ports`
job "ports" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    network {
      port "http" {}
      port "https" {}
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:1"
        ports   = ["http", "https"]
        command = "sh"
        args    = ["-c", "test $NOMAD_PORT_http -gt 0 && test $NOMAD_PORT_https -gt 0 && echo both; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
