job "service-check-script" {
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
      provider = "nomad"
      name     = "script"
      port     = "http"
      check {
        type     = "script"
        interval = "1s"
        timeout  = "1s"
        command  = "/bin/true"
        task     = "t"
      }
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
