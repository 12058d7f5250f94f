job "service-address-host" {
  type = "service"
  update {
    min_healthy_time  = "500ms"
    healthy_deadline  = "4s"
    progress_deadline = "20s"
  }
  group "g" {
    network {
      port "http" {}
    }
    service {
      provider     = "nomad"
      name         = "host"
      port         = "http"
      address_mode = "host"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          exec sleep 3600
          EOF
        ]
      }
    }
  }
}
