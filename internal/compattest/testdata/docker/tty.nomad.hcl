job "tty" {
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
        tty     = true
        command = "sh"
        args    = ["-c", "echo out; echo err >&2; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
