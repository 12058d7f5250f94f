job "check-fails" {
  type = "service"
  update {
    min_healthy_time  = "1s"
    healthy_deadline  = "5s"
    progress_deadline = "30s"
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
    network {
      port "p" {}
    }
    service {
      name     = "checked"
      port     = "p"
      provider = "nomad"
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
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
