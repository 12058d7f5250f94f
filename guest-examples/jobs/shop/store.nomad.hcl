# Redis, with its data on the volume "orders" and its password from the variable nomad/jobs.
#
#   wasmnode job run guest-examples/jobs/shop/store.nomad.hcl

job "store" {
  group "store" {
    shutdown_delay = "1s"

    update {
      min_healthy_time = "1s"
    }

    network {
      port "redis" {}
    }

    volume "orders" {
      type            = "host"
      source          = "orders"
      access_mode     = "single-node-single-writer"
      attachment_mode = "file-system"
    }

    service {
      name     = "store"
      port     = "redis"
      provider = "nomad"

      check {
        type     = "tcp"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "redis" {
      driver = "raw_exec"

      volume_mount {
        volume      = "orders"
        destination = "orders"
      }

      template {
        data        = <<-EOF
          bind {{ env "NOMAD_IP_redis" }}
          port {{ env "NOMAD_PORT_redis" }}
          requirepass {{ with nomadVar "nomad/jobs" }}{{ .password }}{{ end }}
          dir {{ env "NOMAD_TASK_DIR" }}/../orders
          appendonly yes
        EOF
        destination = "secrets/redis.conf"
      }

      config {
        command = "redis-server"
        args    = ["${NOMAD_SECRETS_DIR}/redis.conf"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
