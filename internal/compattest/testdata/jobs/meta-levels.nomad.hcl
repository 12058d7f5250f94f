job "meta-levels" {
  type = "batch"
  meta {
    x = "job"
    y = "job"
    z = "job"
  }
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
    meta {
      x = "group"
      y = "group"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$NOMAD_META_x\" = task && test \"$NOMAD_META_y\" = group && test \"$NOMAD_META_z\" = job"]
      }
      meta {
        x = "task"
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
