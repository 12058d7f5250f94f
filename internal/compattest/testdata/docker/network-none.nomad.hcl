job "network-none" {
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
        network_mode = "none"
        command      = "sh"
        args         = ["-c", "ls /sys/class/net; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
