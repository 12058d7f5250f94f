job "image-name-bad" {
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
        image   = "Not A Name"
        command = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
