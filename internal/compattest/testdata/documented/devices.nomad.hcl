# Example: `devices`
job "devices" {
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
        devices = [
          {
            host_path          = "/dev/null"
            container_path     = "/dev/first"
            cgroup_permissions = "r"
          },
          {
            host_path      = "/dev/zero"
            container_path = "/dev/second"
          }
        ]
        command = "sh"
        args    = ["-c", "ls -l /dev/first /dev/second | cut -c1; head -c 3 /dev/second | wc -c; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
