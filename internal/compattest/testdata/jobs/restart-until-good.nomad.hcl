job "restart-until-good" {
  type = "batch"
  group "g" {
    ephemeral_disk {
      size = 20
    }
    restart {
      attempts = 3
      delay    = "100ms"
      interval = "1h"
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -e \"$NOMAD_ALLOC_DIR/been\" && exit 0; touch \"$NOMAD_ALLOC_DIR/been\"; exit 1"]
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
