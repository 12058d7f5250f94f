# Example: a constraint on the version of Docker
job "constraint" {
  type = "batch"
  constraint {
    attribute = "${attr.driver.docker.version}"
    operator  = "version"
    value     = "> 1.2"
  }
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
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
