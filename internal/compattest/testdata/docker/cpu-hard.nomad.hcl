job "cpu-hard" {
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
        cpu_hard_limit = true
        command        = "sh"
        args           = ["-c", "test $(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d\" \" -f1 /sys/fs/cgroup/cpu.max) -gt 0 && echo limited; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
