job "sidecar-restarts" {
  type = "batch"
  group "g" {
    ephemeral_disk {
      size = 20
    }
    restart {
      attempts = 1
      delay    = "1s"
      interval = "1h"
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "beside" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -e \"$NOMAD_ALLOC_DIR/x\" || { touch \"$NOMAD_ALLOC_DIR/x\"; exit 3; }; exec sleep 3600"]
      }
      lifecycle {
        hook    = "prestart"
        sidecar = true
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
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "while test ! -e \"$NOMAD_ALLOC_DIR/x\"; do sleep 0.1; done; sleep 3"]
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
