job "cron" {
  type = "batch"
  periodic {
    crons = ["0 0 1 1 *"]
  }
  group "g" {
    ephemeral_disk {
      size = 20
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
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
