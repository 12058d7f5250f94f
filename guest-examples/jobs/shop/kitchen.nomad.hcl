# A worker that takes orders from the store's queue, one after another.
#
#   wasmnode job run guest-examples/jobs/shop/kitchen.nomad.hcl

job "kitchen" {
  group "kitchen" {
    update {
      min_healthy_time = "1s"
    }

    task "cook" {
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
          while true; do
            order=
            [ -n "$STORE" ] && order=$(redis-cli $STORE --raw blmove orders cooking right left 5)
            if [ -n "$order" ]; then
              echo "made $order"
              redis-cli $STORE --raw lmove cooking served left left
            else
              sleep 1
            fi
          done
        EOF
        destination = "local/cook.sh"
      }

      config {
        command = "sh"
        args    = ["local/cook.sh"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
