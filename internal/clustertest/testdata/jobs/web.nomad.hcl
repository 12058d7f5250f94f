# A service that is deployed with a canary.

variable "does" {
  type = string
}

job "web" {
  type      = "service"
  node_pool = "edge"

  update {
    canary            = 1
    max_parallel      = 2
    min_healthy_time  = "100ms"
    healthy_deadline  = "20s"
    progress_deadline = "30s"
    auto_revert       = true
  }

  group "g" {
    count = 2
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    network {
      port "http" {}
    }
    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", var.does]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
