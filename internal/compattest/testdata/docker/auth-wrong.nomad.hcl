job "auth-wrong" {
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
        image = "{registry}/with/auth:2"
        auth {
          username = "{user}"
          password = "wrong"
        }
        command = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
