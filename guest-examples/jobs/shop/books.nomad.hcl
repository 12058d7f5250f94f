# Counts the orders that were served.
#
#   wasmnode job run guest-examples/jobs/shop/books.nomad.hcl

job "books" {
  type = "batch"

  group "books" {
    restart {
      attempts = 10
      delay    = "1s"
    }

    task "count" {
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

      config {
        command = "sh"
        args    = ["-c", "[ -n \"$STORE\" ] && echo served $(redis-cli $STORE --raw llen served)"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
