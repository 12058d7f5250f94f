job "kill-timeout" {
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
    task "lead" {
      driver = "docker"
      leader = true
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "until [ -e /alloc/data/started ]; do sleep 0.2; done; sleep 2"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "t" {
      driver       = "docker"
      kill_timeout = "1s"
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "trap '' TERM; touch /alloc/data/started; while true; do sleep 1; done"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
