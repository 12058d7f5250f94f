job "lifecycle-all" {
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
    task "after" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -e \"$NOMAD_ALLOC_DIR/main\""]
      }
      lifecycle {
        hook    = "poststop"
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
    task "before" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "touch \"$NOMAD_ALLOC_DIR/before\""]
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
    task "beside" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 3600"]
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
        args    = ["-c", "sleep 4; test -e \"$NOMAD_ALLOC_DIR/before\" && touch \"$NOMAD_ALLOC_DIR/main\""]
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
    task "then" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 3600"]
      }
      lifecycle {
        hook    = "poststart"
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
  }
}
