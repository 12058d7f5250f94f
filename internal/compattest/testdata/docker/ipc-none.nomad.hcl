job "ipc-none" {
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
        image    = "busybox:1"
        ipc_mode = "none"
        command  = "sh"
        args     = ["-c", "test -d /dev/shm || echo no shm; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
