job "user" {
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
      user   = "1000:1001"
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "id -u; id -g; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
