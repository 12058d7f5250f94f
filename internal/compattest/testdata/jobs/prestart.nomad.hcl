job "prestart" {
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
    task "before" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo x > \"$NOMAD_ALLOC_DIR/made\""]
      }
      lifecycle {
        hook    = "prestart"
        sidecar = false
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
        args    = ["-c", "test -e \"$NOMAD_ALLOC_DIR/made\""]
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
