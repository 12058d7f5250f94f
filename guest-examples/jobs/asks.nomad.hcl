# Asks the node's API for a variable, as itself: with its own token, by its own socket.
#
#   wasmnode var put nomad/jobs/asks word=ahoy
#   wasmnode job run guest-examples/jobs/asks.nomad.hcl

job "asks" {
  type = "batch"

  group "asks" {
    task "ask" {
      driver = "raw_exec"

      identity {
        env  = true
        file = true
      }

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cd "$NOMAD_SECRETS_DIR"
          curl -sS --fail-with-body --unix-socket api.sock -H "X-Nomad-Token: $NOMAD_TOKEN" localhost/v1/var/nomad/jobs/asks
        EOF
        ]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
