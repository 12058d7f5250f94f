job "kill-polite" {
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
      driver = "docker"
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "trap 'echo got term; exit 5' TERM; touch /alloc/data/started; while true; do sleep 0.1; done"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
