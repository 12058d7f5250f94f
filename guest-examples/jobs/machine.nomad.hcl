# Runs a virtual machine from an image of its disk, with a port of the node's choice that leads to
# its SSH. The node needs an emulator, and the qemu driver with its grants:
# guest-examples/drivers/qemu/README.md has both.
#
#   wasmnode job run -var image=/srv/images/linux.img guest-examples/jobs/machine.nomad.hcl

variable "image" {
  type        = string
  description = "The absolute path of the disk's image, in one of the driver's image_paths."
  default     = "/srv/images/linux.img"
}

variable "accelerator" {
  type        = string
  description = "kvm where the machine has it, else tcg."
  default     = "tcg"
}

job "machine" {
  group "vm" {
    network {
      port "ssh" {}
    }

    task "linux" {
      driver       = "qemu"
      kill_timeout = "30s"

      config {
        image_path        = var.image
        use_thin_copy     = true
        accelerator       = var.accelerator
        drive_interface   = "virtio"
        graceful_shutdown = true

        port_map {
          ssh = 22
        }
      }

      resources {
        cpu    = 500
        memory = 512
      }
    }
  }
}
