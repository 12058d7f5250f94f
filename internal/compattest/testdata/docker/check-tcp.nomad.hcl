job "check-tcp" {
  type = "service"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    network {
      port "http" {
        to = 8080
      }
    }
    update {
      min_healthy_time  = "1s"
      healthy_deadline  = "2m"
      progress_deadline = "3m"
    }
    service {
      name     = "check-tcp"
      port     = "http"
      provider = "nomad"
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:1"
        ports   = ["http"]
        command = "httpd"
        args    = ["-f", "-p", "8080", "-h", "/local"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
