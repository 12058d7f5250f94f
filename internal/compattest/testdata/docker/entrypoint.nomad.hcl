job "entrypoint" {
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
        image      = "busybox:1"
        entrypoint = ["/bin/sh", "-c", "echo from the entrypoint $0 $1; sleep 1"]
        args       = ["and", "arguments"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
