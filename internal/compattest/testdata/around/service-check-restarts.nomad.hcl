job "service-check-restarts" {
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
    restart {
      attempts = 1
      interval = "10m"
      delay    = "100ms"
      mode     = "fail"
    }
    service {
      provider = "nomad"
      name     = "restarting"
      port     = "http"
      check {
        type     = "http"
        interval = "1s"
        timeout  = "1s"
        path     = "/nope"
        check_restart {
          limit = 2
          grace = "1s"
        }
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          mkdir -p local/www && echo ok > local/www/index.html
          exec busybox httpd -f -p $NOMAD_ADDR_http -h local/www
          EOF
        ]
      }
    }
  }
}
