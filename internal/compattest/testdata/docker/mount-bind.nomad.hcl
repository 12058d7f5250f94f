job "mount-bind" {
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
        mount {
          type     = "bind"
          source   = "local/hello.txt"
          target   = "/etc/hello.txt"
          readonly = true
        }
        command = "sh"
        args    = ["-c", "cat /etc/hello.txt; echo x > /etc/hello.txt; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
