job "volume-two-tasks" {
  type = "batch"
  group "g" {
    volume "data" {
      type   = "host"
      source = "shared"
    }
    task "before" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          echo first > /data/both && echo wrote
          EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      lifecycle {
        hook = "prestart"
      }
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          read -r line < /other/both && echo "read: $line"
          EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/other"
      }
    }
  }
}
