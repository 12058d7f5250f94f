job "readonly-rootfs" {
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
        image           = "busybox:1"
        readonly_rootfs = true
        command         = "sh"
        args            = ["-c", "echo x > /x; echo x > /local/x && cat /local/x; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
