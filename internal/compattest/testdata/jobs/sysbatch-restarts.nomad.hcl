job "sysbatch-restarts" {
  type = "sysbatch"
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
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exit 1"]
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
