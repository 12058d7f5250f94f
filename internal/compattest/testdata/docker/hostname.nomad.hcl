job "hostname" {
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
        image    = "busybox:1"
        hostname = "box"
        command  = "sh"
        args     = ["-c", "hostname; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
