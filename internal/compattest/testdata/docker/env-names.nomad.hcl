job "env-names" {
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
      env {
        MINE = "1"
      }
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "env | cut -d= -f1 | sort; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
