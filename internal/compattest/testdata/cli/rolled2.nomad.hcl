job "rolled" {
  meta {
    owner = "ann"
  }
  update {
    min_healthy_time  = "100ms"
    healthy_deadline  = "30s"
    progress_deadline = "1m"
    canary            = 1
  }
  group "g" {
    count = 1
    network {
      port "http" {}
    }
    scaling {
      min     = 1
      max     = 5
      enabled = true
      policy {}
    }
    ephemeral_disk {
      size = 20
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo changed; echo two; echo bad >&2; echo kept > local/file.txt; exec sleep 3600"]
      }
      action "greet" {
        command = "/bin/echo"
        args    = ["hello"]
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
