# Example: `labels`
job "labels" {
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
        labels {
          tier  = "front"
          owner = "nobody"
        }
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
