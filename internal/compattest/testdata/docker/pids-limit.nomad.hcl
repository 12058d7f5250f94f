job "pids-limit" {
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
        image      = "busybox:1"
        pids_limit = 40
        command    = "sh"
        args       = ["-c", "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
