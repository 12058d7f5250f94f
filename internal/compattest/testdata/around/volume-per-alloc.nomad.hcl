job "volume-per-alloc" {
  type = "batch"
  group "g" {
    count = 2
    volume "data" {
      type      = "host"
      source    = "each"
      per_alloc = true
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          echo written > /data/note && echo wrote
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
