job "volume-dynamic-modes" {
  type = "batch"
  group "g" {
    volume "data" {
      type            = "host"
      source          = "notes"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
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
