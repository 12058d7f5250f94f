# A web service that puts orders into the store's queue.
#
#   wasmnode job run guest-examples/jobs/shop/counter.nomad.hcl

job "counter" {
  group "counter" {
    count          = 2
    shutdown_delay = "1s"

    update {
      min_healthy_time = "1s"
    }

    network {
      port "http" {}
    }

    service {
      name     = "counter"
      port     = "http"
      provider = "nomad"

      check {
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "httpd" {
      driver = "raw_exec"

      template {
        data        = <<-EOF
          {{ range nomadService 1 (env "NOMAD_ALLOC_ID") "store" }}
          STORE="-h {{ .Address }} -p {{ .Port }}"
          {{ end }}
          REDISCLI_AUTH={{ with nomadVar "nomad/jobs" }}{{ .password }}{{ end }}
        EOF
        destination = "secrets/store.env"
        env         = true
      }

      template {
        data        = <<-EOF
          #!/bin/sh
          echo 'Content-Type: text/plain'
          echo
          [ -n "$STORE" ] || { echo "the store is closed"; exit; }
          redis-cli $STORE lpush orders "$QUERY_STRING"
        EOF
        destination = "local/www/cgi-bin/order"
        perms       = "755"
      }

      template {
        data        = "Send orders to /cgi-bin/order?WHAT\n"
        destination = "local/www/index.html"
      }

      config {
        command = "busybox"
        args    = ["httpd", "-f", "-p", "${NOMAD_ADDR_http}", "-h", "local/www"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
