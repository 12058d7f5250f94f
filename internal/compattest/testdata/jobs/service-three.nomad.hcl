job "service-three" {
  type = "service"
  update {
    min_healthy_time  = "100ms"
    healthy_deadline  = "5s"
    progress_deadline = "10s"
  }
  group "g" {
    count = 3
    ephemeral_disk {
      size = 20
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 3600"]
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
