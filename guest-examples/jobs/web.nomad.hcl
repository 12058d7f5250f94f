# Serves HTTP from a sandboxed program, on a port of the node's choice.
#
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/web.nomad.hcl

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

job "web" {
  group "web" {
    network {
      port "http" {}
    }

    service {
      name     = "web"
      provider = "nomad"
      port     = "http"

      check {
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "web" {
      driver = "wasi"

      config {
        module  = "${var.programs}/web.wasm"
        args    = ["hello from the sandbox"]
        listen  = ["http"]
        signals = true
      }

      kill_signal  = "SIGTERM"
      kill_timeout = "20s"

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
