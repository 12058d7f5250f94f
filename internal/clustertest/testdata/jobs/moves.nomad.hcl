# A service that may be on the nodes whose names a constraint says.

variable "on" {
  type = string
}

job "moves" {
  type      = "service"
  node_pool = "all"

  constraint {
    attribute = "${node.unique.name}"
    operator  = "regexp"
    value     = var.on
  }

  group "g" {
    update {
      min_healthy_time = "100ms"
    }
    migrate {
      min_healthy_time = "100ms"
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
