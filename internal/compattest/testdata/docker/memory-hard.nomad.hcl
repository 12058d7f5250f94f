job "memory-hard" {
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
        image             = "busybox:1"
        memory_hard_limit = 48
        command           = "sh"
        args              = ["-c", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
