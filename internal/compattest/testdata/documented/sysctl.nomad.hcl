# Example: `sysctl`
job "sysctl" {
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
        image = "busybox:1"
        sysctl = {
          "net.core.somaxconn" = "8192"
        }
        command = "sh"
        args    = ["-c", "cat /proc/sys/net/core/somaxconn; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
