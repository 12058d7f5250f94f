# A service for a node of the default pool.

job "plain" {
  type = "service"

  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "plain"
      port     = "http"
      provider = "nomad"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["10000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
