job "mounts-list" {
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
      template {
        data        = "from a template\n"
        destination = "local/hello.txt"
      }
      config {
        image = "busybox:1"
        mounts = [
          {
            type     = "bind"
            source   = "local"
            target   = "/etc/mine"
            readonly = false
          }
        ]
        command = "sh"
        args    = ["-c", "cat /etc/mine/hello.txt; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
