# A task of each sandboxed driver, and one that has a device.

variable "programs" {
  type = string
}

job "programs" {
  type      = "batch"
  node_pool = "edge"

  group "wasi" {
    task "print" {
      driver = "wasi"
      config {
        module = "${var.programs}/print.wasm"
        args   = ["-n", "2"]
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }

  group "exec" {
    task "id" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "id -un; echo $$; pwd"]
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }

  group "device" {
    task "device" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo has $EXAMPLE_DEVICES"]
      }
      resources {
        cpu    = 50
        memory = 32
        device "nomad/file/mock" {
          count = 1
        }
      }
    }
  }
}
