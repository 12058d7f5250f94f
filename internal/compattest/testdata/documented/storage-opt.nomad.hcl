# Example: `storage_opt`
job "storage-opt" {
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
        storage_opt = {
          size = "40G"
        }
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
