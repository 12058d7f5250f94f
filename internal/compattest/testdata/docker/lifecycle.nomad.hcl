job "lifecycle" {
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
    task "before" {
      driver = "docker"
      lifecycle {
        hook = "prestart"
      }
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "echo made > /alloc/data/made"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "cat /alloc/data/made; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
