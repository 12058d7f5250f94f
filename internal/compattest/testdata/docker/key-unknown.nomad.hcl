job "key-unknown" {
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
        image   = "busybox:1"
        imagine = "this"
        command = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
