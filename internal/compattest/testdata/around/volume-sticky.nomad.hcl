job "volume-sticky" {
  type = "batch"
  group "g" {
    volume "data" {
      type   = "host"
      source = "kept"
      sticky = true
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          echo written > /data/note && echo wrote || echo not written
          read -r line < /data/note && echo "read: $line"
          EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
