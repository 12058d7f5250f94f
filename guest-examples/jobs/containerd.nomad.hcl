# Runs a web server in a container of containerd, in a network of the group's own. The node needs
# containerd with the image, the CNI plugins, and the containerd driver with its grant:
# guest-examples/drivers/containerd/README.md has all of it.
#
#   ctr -n nomad images pull docker.io/library/nginx:1.28
#   wasmnode job run guest-examples/jobs/containerd.nomad.hcl

variable "image" {
  type        = string
  description = "The image, which containerd has to have."
  default     = "docker.io/library/nginx:1.28"
}

job "containerd" {
  group "web" {
    network {
      mode = "bridge"

      port "http" {
        to = 80
      }
    }

    service {
      name     = "containerd"
      provider = "nomad"
      port     = "http"

      check {
        type     = "http"
        path     = "/"
        interval = "5s"
        timeout  = "2s"
      }
    }

    task "nginx" {
      driver = "containerd-driver"

      config {
        image = var.image

        mounts = [
          {
            type    = "bind"
            source  = "local/site"
            target  = "/usr/share/nginx/html"
            options = ["rbind", "ro"]
          }
        ]
      }

      template {
        destination = "local/site/index.html"
        data        = "Hello from {{ env \"NOMAD_ALLOC_ID\" }}.\n"
      }

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
