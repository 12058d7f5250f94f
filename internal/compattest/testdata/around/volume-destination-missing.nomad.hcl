job "volume-destination-missing" {
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
          echo ran
          EOF
        ]
      }
      volume_mount {
        volume = "data"
      }
    }
  }
}
