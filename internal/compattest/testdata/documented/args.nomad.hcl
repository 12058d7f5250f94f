# Example: `args` with variables
job "args" {
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
    network {
      port "http" {
        to = 8080
      }
    }
    task "t" {
      driver = "docker"
      env {
        MINE = "of the task"
      }
      config {
        image = "redis:7-prints"
        ports = ["http"]
        args = [
          "-bind", "${NOMAD_PORT_http}",
          "${node.datacenter}",
          "${MINE}",
          "${meta.colour}",
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
