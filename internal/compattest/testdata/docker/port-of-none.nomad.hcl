job "port-of-none" {
  type = "batch"
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
      port "http" {}
    }
    task "t" {
      driver = "docker"
      config {
        image        = "busybox:1"
        network_mode = "none"
        ports        = ["http"]
        command      = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
