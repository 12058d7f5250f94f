job "image-registry-down" {
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
        image   = "127.0.0.1:1/none:1"
        command = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
