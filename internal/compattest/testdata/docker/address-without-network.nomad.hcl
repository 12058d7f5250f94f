job "address-without-network" {
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
    task "t" {
      driver = "docker"
      config {
        image        = "busybox:1"
        ipv4_address = "10.9.8.7"
        command      = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
