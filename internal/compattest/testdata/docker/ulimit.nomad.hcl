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
          nofile = "512:1024"
          nproc  = "300"
        }
        command = "sh"
        args    = ["-c", "ulimit -Sn; ulimit -Hn; grep processes /proc/self/limits | awk '{print $3, $4}'; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
