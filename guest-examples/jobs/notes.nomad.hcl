# Writes and reads a note in a host volume, which stays when the job is gone. A file of three
# lines makes the volume: its name is "notes", its type "host" and its plugin_id "mkdir".
#
#   wasmnode volume create notes.volume.hcl
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/notes.nomad.hcl

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

variable "steps" {
  type        = list(string)
  description = "What is done in the volume, which is at /data."
  default     = ["write:/data/note=kept", "read:/data/note"]
}

job "notes" {
  type = "batch"

  group "notes" {
    volume "data" {
      type   = "host"
      source = "notes"
      sticky = true
    }

    task "notes" {
      driver = "wasi"

      config {
        module = "${var.programs}/files.wasm"
        args   = var.steps
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
