# Example: `nomad job init -short`
job "init-short" {
  group "store" {
    network {
      port "keys" {
        to = 6379
      }
    }

    task "server" {
      driver = "docker"

      config {
        image          = "redis:7"
        ports          = ["keys"]
        auth_soft_fail = true
      }

      identity {
        env  = true
        file = true
      }

      resources {
        cpu    = 250
        memory = 64
      }
    }
  }
}
