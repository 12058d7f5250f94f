# Example: `logging` with fluentd
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
        image = "redis:7-says"
        logging {
          type = "fluentd"
          config {
            fluentd-address = "localhost:24224"
            tag             = "mine"
          }
        }
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
