job "template-modes" {
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
        args    = ["-c", "test \"$A-$B\" = 1-x && grep -q \"left ((\" local/plain && test \"$(stat -c %a local/plain)\" = 600"]
      }
      template {
        data        = "A=1\nB=x"
        destination = "local/e"
        env         = true
        change_mode = "restart"
      }
      template {
        data            = "left (( [[ env \"A_NAME\" ]]"
        destination     = "local/plain"
        perms           = "600"
        change_mode     = "signal"
        change_signal   = "SIGHUP"
        splay           = "1s"
        left_delimiter  = "[["
        right_delimiter = "]]"
      }
      template {
        data        = "noop"
        destination = "secrets/noop"
        change_mode = "noop"
        once        = true
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
