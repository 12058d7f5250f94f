job "service-http-missing" {
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
      name     = "http-missing"
      port     = "http"
      check {
        type     = "http"
        interval = "1s"
        timeout  = "1s"
        path     = "/nope"
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          mkdir local/www && echo ok > local/www/index.html
          exec busybox httpd -f -p $NOMAD_ADDR_http -h local/www
          EOF
        ]
      }
    }
  }
}
