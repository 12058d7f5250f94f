job "ports-two" {
  type = "batch"
  group "g" {
    ephemeral_disk {
      size = 20
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    network {
      port "a" {}
      port "b" {
        to = 80
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$NOMAD_HOST_PORT_b\" -gt 0 && test \"$NOMAD_PORT_b\" = 80 && test -n \"$NOMAD_ADDR_a\" && test -n \"$NOMAD_IP_a\""]
      }
      resources {
        cpu    = 10
        memory = 20
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
