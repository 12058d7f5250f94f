# A job as one writes it for any driver: variables, a constraint, a restart policy,
# log rotation, an environment. Only `driver` and `config` are the wasi driver's; the
# program is in C.
#
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/columns.nomad.hcl

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

variable "table" {
  type        = string
  description = "The name of a CSV file in the programs' texts."
  default     = "rivers.csv"

  validation {
    condition     = substr(var.table, -4, 4) == ".csv"
    error_message = "The table must be a CSV file."
  }
}

locals {
  target = "/data/${var.table}"
}

job "columns" {
  datacenters = ["*"]
  type        = "batch"
  priority    = 60

  meta {
    owner = "hydrology"
  }

  constraint {
    attribute = "${attr.kernel.name}"
    operator  = "regexp"
    value     = "linux|darwin"
  }

  group "report" {
    count = 1

    # The defaults of a batch job, written out.
    restart {
      attempts = 3
      interval = "24h"
      delay    = "15s"
      mode     = "fail"
    }

    ephemeral_disk {
      size = 50
    }

    task "statistics" {
      driver = "wasi"

      config {
        module = "${var.programs}/columns.wasm"
        args   = [local.target]

        mounts = [{
          source = "${var.programs}/texts"
          target = "/data"
        }]
      }

      env {
        LC_ALL = "C"
        REPORT = "${NOMAD_JOB_NAME}-${NOMAD_ALLOC_INDEX}"
        OWNER  = "${NOMAD_META_owner}"
        TABLE  = upper(var.table)
      }

      logs {
        max_files     = 3
        max_file_size = 5
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
