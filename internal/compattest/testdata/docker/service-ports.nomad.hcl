job "service-ports" {
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
      port "db" {
        to = 6379
      }
    }
    update {
      min_healthy_time = "1s"
    }
    task "t" {
      driver = "docker"
      config {
        image   = "redis:7"
        ports   = ["db"]
        command = "sleep"
        args    = ["1000"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
