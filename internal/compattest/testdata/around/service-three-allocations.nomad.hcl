job "service-three-allocations" {
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
    count = 3
    service {
      provider = "nomad"
      name     = "thrice"
      port     = "http"
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
