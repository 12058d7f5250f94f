job "volume-kind-unknown" {
  type = "batch"
  group "g" {
    volume "data" {
      type   = "nfs"
      source = "shared"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          (echo written > /data/$NOMAD_JOB_NAME) 2>/dev/null && echo wrote || echo not written
          read -r line < /data/greeting && echo "read: $line"
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
