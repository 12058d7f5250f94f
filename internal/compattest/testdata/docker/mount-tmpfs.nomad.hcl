job "mount-tmpfs" {
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
        mount {
          type   = "tmpfs"
          target = "/scratch"
          tmpfs_options {
            size = 1048576
          }
        }
        command = "sh"
        args    = ["-c", "grep -o \" /scratch tmpfs rw\" /proc/mounts; df -k /scratch | tail -1 | awk '{print $2}'; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
