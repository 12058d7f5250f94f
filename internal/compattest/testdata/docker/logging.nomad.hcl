job "logging" {
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
      config {
        image = "busybox:1"
        logging {
          type = "json-file"
          config {
            max-size = "1m"
          }
        }
        command = "sh"
        args    = ["-c", "echo logged; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
