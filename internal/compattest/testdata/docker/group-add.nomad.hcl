job "group-add" {
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
        image     = "busybox:1"
        group_add = ["1234"]
        command   = "sh"
        args      = ["-c", "id -G; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
