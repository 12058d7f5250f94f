# Example: `port_map` with a task's network, deprecated
job "port-map" {
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
      resources {
        cpu    = 20
        memory = 32
        network {
          port "redis" {}
        }
      }
      config {
        image = "busybox:1"
        port_map {
          redis = 6379
        }
        command = "sh"
        args    = ["-c", "echo $NOMAD_PORT_redis; sleep 1"]
      }
    }
  }
}
