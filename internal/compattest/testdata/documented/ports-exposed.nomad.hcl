# Example: a port that the program asks for
job "ports-exposed" {
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
        image   = "busybox:1"
        ports   = ["http"]
        command = "sh"
        args    = ["-c", "test $NOMAD_PORT_http = $NOMAD_HOST_PORT_http && echo the same; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
