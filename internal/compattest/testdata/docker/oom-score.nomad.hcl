job "oom-score" {
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
        image         = "busybox:1"
        oom_score_adj = 300
        command       = "sh"
        args          = ["-c", "cat /proc/self/oom_score_adj; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
