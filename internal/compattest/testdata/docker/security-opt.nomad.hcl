job "security-opt" {
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
        security_opt = ["no-new-privileges"]
        command      = "sh"
        args         = ["-c", "grep NoNewPrivs /proc/self/status; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
