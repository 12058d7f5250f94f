# A task needs a driver besides: raw_exec.wasm has to be in plugins/, too.
job "@NAME@" {
  update {
    min_healthy_time = "1s"
  }

  group "main" {
    task "hello" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"My devices: $DEVICE_IDS\"; exec sleep 3600"]
      }

      resources {
        cpu    = 50
        memory = 32

        device "example/@NAME@/virtual" {
          count = 1
        }
      }
    }
  }
}
