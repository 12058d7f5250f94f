job "network-host-ports" {
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
        image        = "busybox:1"
        network_mode = "host"
        ports        = ["http"]
        command      = "sh"
        args         = ["-c", "test $NOMAD_PORT_http -gt 0 && echo a port; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
