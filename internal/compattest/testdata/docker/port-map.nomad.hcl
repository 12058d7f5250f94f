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
    network {
      port "http" {}
    }
    task "t" {
      driver = "docker"
      config {
        image = "busybox:1"
        port_map {
          http = 8080
        }
        command = "sh"
        args    = ["-c", "echo $NOMAD_PORT_http; test $NOMAD_HOST_PORT_http -gt 10000 && echo above; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
