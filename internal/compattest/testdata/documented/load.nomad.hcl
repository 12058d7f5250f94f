# Example: `load` with an artifact
job "load" {
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
      artifact {
        source = "{served}/image.tar"
        options {
          archive = false
        }
      }
      config {
        load    = "image.tar"
        image   = "loaded"
        command = "sh"
        args    = ["-c", "echo loaded; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
