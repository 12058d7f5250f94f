job "served" {
  group "g" {
    network {
      port "http" {}
    }
    volume "data" {
      type   = "host"
      source = "notes"
      sticky = true
    }
    service {
      provider = "nomad"
      name     = "served-shop"
      port     = "http"
      tags     = ["front", "v1"]
    }
    update {
      min_healthy_time = "100ms"
      healthy_deadline = "30s"
    }
    ephemeral_disk {
      size = 20
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["3600"]
      }
      identity {
        env  = true
        file = true
      }
      resources {
        cpu    = 10
        memory = 20
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
