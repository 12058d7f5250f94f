# A service: prints a line a second into rotated log files until it is stopped.
#
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/ticker.nomad.hcl
#   wasmnode alloc logs -f ALLOC

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

variable "count" {
  type        = number
  description = "How many tickers run side by side."
  default     = 2
}

job "ticker" {
  type = "service"

  group "ticker" {
    count = var.count

    restart {
      attempts = 2
      interval = "1m"
      delay    = "5s"
      mode     = "fail"
    }

    task "print" {
      driver = "wasi"

      config {
        module = "${var.programs}/print.wasm"
        args   = ["-n", "1000000000", "-every", "1s"]
      }

      kill_timeout = "2s"

      logs {
        max_files     = 2
        max_file_size = 1
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
