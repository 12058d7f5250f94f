job "exit-restarts" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 2
      delay    = "1s"
      interval = "5m"
      mode     = "fail"
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "echo again; sleep 1; exit 3"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
