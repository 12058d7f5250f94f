# Counts the words of a text that is mounted into the task, and prints them as JSON.
#
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/hello.nomad.hcl

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

job "hello" {
  type = "batch"

  group "hello" {
    task "wordcount" {
      driver = "wasi"

      config {
        module = "${var.programs}/wordcount.wasm"
        args   = ["-top", "5"]

        mounts = [{
          source    = "${var.programs}/texts"
          target    = "/texts"
          read_only = true
        }]
      }

      env {
        WORDCOUNT_FILE = "/texts/ferry.txt"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
