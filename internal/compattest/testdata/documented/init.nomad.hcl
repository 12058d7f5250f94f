# Example: `nomad job init`
job "init" {
  datacenters = ["*"]

  type = "service"

  update {
    max_parallel      = 1
    min_healthy_time  = "1s"
    healthy_deadline  = "2m"
    progress_deadline = "4m"
    auto_revert       = false
    canary            = 0
  }

  migrate {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "1s"
    healthy_deadline = "2m"
  }

  ui {
    description = "A **store** of keys"
    link {
      label = "More of it"
      url   = "https://store.example/"
    }
  }

  group "store" {
    count = 1

    network {
      port "keys" {
        to = 6379
      }
    }

    service {
      name     = "init-keys"
      tags     = ["all", "store"]
      port     = "keys"
      provider = "nomad"
    }

    restart {
      attempts = 1
      interval = "10m"
      delay    = "1s"
      mode     = "fail"
    }

    ephemeral_disk {
      size = 150
    }

    task "server" {
      driver = "docker"

      config {
        image          = "redis:7"
        ports          = ["keys"]
        auth_soft_fail = true
      }

      shutdown_delay = "1s"

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
