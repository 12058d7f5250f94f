# A service of three that is updated one after another. Another duration is another version.
#
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/rolling.nomad.hcl
#   wasmnode job run -var programs=$PWD/bin/programs -var duration=2h guest-examples/jobs/rolling.nomad.hcl

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

variable "duration" {
  type        = string
  description = "How long the program sleeps. What is no duration has it fail at once."
  default     = "1h"
}

variable "canary" {
  type        = number
  description = "How many canaries an update places first."
  default     = 0
}

job "rolling" {
  type = "service"

  group "sleepers" {
    count = 3

    update {
      max_parallel      = 1
      canary            = var.canary
      min_healthy_time  = "1s"
      healthy_deadline  = "30s"
      progress_deadline = "0s"
      auto_revert       = true
    }

    restart {
      attempts = 0
      mode     = "fail"
    }

    task "sleep" {
      driver = "wasi"

      config {
        module = "${var.programs}/sleep.wasm"
        args   = [var.duration]
      }

      kill_timeout = "2s"

      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
