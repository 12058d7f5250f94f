# Example: `ulimit`
job "ulimit" {
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
        ulimit {
          nproc  = "3000"
          nofile = "1024:3072"
        }
        command = "sh"
        args    = ["-c", "ulimit -Sn; ulimit -Hn; grep processes /proc/self/limits; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
