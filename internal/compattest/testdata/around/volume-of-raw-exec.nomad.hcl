job "volume-of-raw-exec" {
  type = "batch"
  group "g" {
    volume "data" {
      type   = "host"
      source = "shared"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          read -r line < data/greeting && echo "read: $line"
          EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "data"
      }
    }
  }
}
