job "mount-volume" {
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
        image = "busybox:1"
        mount {
          type   = "volume"
          target = "/data"
        }
        command = "sh"
        args    = ["-c", "echo x > /data/x && cat /data/x; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
