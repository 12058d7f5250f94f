job "auth-soft-fail" {
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
        image          = "busybox:1"
        auth_soft_fail = true
        command        = "sh"
        args           = ["-c", "echo here; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
