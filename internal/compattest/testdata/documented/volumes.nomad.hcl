# Example: `volumes`, absolute and relative
job "volumes" {
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
        data        = "relative"
        destination = "local/made/text"
      }
      config {
        image = "busybox:1"
        volumes = [
          "/usr/share:/of/the/machine",
          "local/made:/of/the/task"
        ]
        command = "sh"
        args    = ["-c", "test -d /of/the/machine/doc && echo machine; cat /of/the/task/text; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
