# Example: `image` with a scheme and a registry
job "image-url" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "docker"
      config {
        image = "https://{registry}/with/scheme:1"
        auth {
          username = "{user}"
          password = "{password}"
        }
        command = "sh"
        args    = ["-c", "echo pulled; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
