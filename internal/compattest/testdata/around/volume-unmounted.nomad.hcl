job "volume-unmounted" {
  type = "batch"
  group "g" {
    volume "data" {
      type   = "host"
      source = "notes"
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
    }
  }
}
