job "logs-rotate" {
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
        args    = ["-c", "head -c 3000000 /dev/zero | tr \"\\\\0\" x | fold -w 100; sleep 1"]
      }
      resources {
        cpu    = 10
        memory = 20
      }
      logs {
        max_files     = 2
        max_file_size = 1
      }
    }
  }
}
