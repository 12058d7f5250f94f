job "volume-destination-interpolated" {
  type = "batch"
  group "g" {
    volume "data" {
      type   = "host"
      source = "shared"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          read -r line < /volume-destination-interpolated/greeting && echo "read: $line"
          EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/${NOMAD_JOB_NAME}"
      }
    }
  }
}
