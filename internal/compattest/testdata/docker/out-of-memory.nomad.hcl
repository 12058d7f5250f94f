job "out-of-memory" {
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
        command = "sh"
        args    = ["-c", "x=0123456789abcdef; while true; do x=$x$x; done"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
