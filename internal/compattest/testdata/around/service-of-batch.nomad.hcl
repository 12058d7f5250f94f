job "service-of-batch" {
  type = "batch"
  group "g" {
    network {
      port "http" {}
    }
    service {
      provider = "nomad"
      name     = "of-batch"
      port     = "http"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          sleep 1; echo done
          EOF
        ]
      }
    }
  }
}
