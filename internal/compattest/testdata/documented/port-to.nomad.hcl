# Example: the port map by `to`
job "port-to" {
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
    network {
      port "redis" { to = 6379 }
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:1"
        ports   = ["redis"]
        command = "sh"
        args    = ["-c", "echo $NOMAD_PORT_redis; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
