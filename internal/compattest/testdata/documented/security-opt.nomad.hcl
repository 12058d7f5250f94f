# Example: `security_opt` with a file for Windows
job "security-opt" {
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
        image = "redis:7-says"
        security_opt = [
          "credentialspec=file://account.json",
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
