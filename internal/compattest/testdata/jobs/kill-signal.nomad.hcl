job "kill-signal" {
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
    task "lead" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "sleep 1"]
      }
      leader = true
      resources {
        cpu    = 10
        memory = 20
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
    task "polite" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'exit 0' INT; while :; do sleep 0.1; done"]
      }
      kill_signal = "SIGINT"
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
