# Example: `cap_add`
job "cap-add" {
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
        image   = "busybox:1"
        cap_add = ["net_raw", "sys_time"]
        command = "sh"
        args    = ["-c", "grep CapEff /proc/self/status; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
