job "volume-dynamic-read-only" {
  type = "batch"
  group "g" {
    volume "data" {
      type      = "host"
      source    = "notes"
      read_only = true
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          echo x > /data/y && echo wrote || echo not written
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
