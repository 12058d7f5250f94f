job "env-odd" {
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
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$A_B-$EMPTY-$ALLOC\" = \"v--0\" && test -n \"$NOMAD_META_owner_of\""]
      }
      env {
        A_B   = "v"
        EMPTY = ""
        ALLOC = "${NOMAD_ALLOC_INDEX}"
      }
      meta {
        owner_of = "x"
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
