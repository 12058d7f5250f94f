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
            container_path     = "/dev/mine"
            cgroup_permissions = "r"
          }
        ]
        command = "sh"
        args    = ["-c", "ls -l /dev/mine | cut -c1; echo x > /dev/mine; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
