job "shm-size" {
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
        image    = "busybox:1"
        shm_size = 4194304
        command  = "sh"
        args     = ["-c", "df -k /dev/shm | tail -1 | awk '{print $2}'; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
