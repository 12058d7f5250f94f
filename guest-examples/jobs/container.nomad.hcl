# Runs a web server in a container, on a port of the node's choice. The node needs a container
# engine, and the docker driver with its grants: guest-examples/drivers/docker/README.md has both.
#
#   wasmnode job run guest-examples/jobs/container.nomad.hcl

variable "image" {
  type        = string
  description = "The image, named in full."
  default     = "docker.io/library/nginx:1.28"
}

job "container" {
  group "web" {
    network {
      port "http" {
        to = 80
      }
    }

    service {
      name     = "container"
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
      driver = "docker"

      config {
        image = var.image
        ports = ["http"]

        mount {
          type     = "bind"
          source   = "local/site"
          target   = "/usr/share/nginx/html"
          readonly = true
        }
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
