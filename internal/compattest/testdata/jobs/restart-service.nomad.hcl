job "restart-service" {
  type = "service"
  update {
    min_healthy_time  = "1s"
    healthy_deadline  = "5s"
    progress_deadline = "10s"
  }
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
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exit 0"]
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
