# Takes devices, and a second to let go of them: writes down when it has them.

variable "id" {
  type = string
}

variable "type" {
  type = string
}

variable "priority" {
  type = number
}

variable "count" {
  type = number
}

variable "marks" {
  type = string
}

job "devours" {
  id        = var.id
  type      = var.type
  priority  = var.priority
  node_pool = "edge"

  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo ${var.id} begins >>${var.marks}; trap 'sleep 1; echo ${var.id} ends >>${var.marks}; exit 0' INT; while true; do sleep 0.1; done"]
      }
      resources {
        cpu    = 50
        memory = 32
        device "nomad/file/mock" {
          count = var.count
        }
      }
    }
  }
}
