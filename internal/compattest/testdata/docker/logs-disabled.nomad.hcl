job "logs-disabled" {
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
    task "t" {
      driver = "docker"
      logs {
        disabled = true
      }
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "echo unheard; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
