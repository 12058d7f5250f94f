job "killed-inside" {
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
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "sh -c 'kill -9 $$'; r=$?; sleep 1; exit $r"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
