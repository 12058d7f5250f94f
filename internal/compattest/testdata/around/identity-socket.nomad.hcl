job "identity-socket" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          claim() { echo "$1" | cut -d. -f2 | tr -- -_ +/ | sed 's/$/===/' | base64 -d 2>/dev/null; }
          cd secrets
          ask() { curl -s -o /dev/null -D - --unix-socket api.sock "$@" | head -n 1 | tr -d '\r'; }
          ask localhost/v1/var/nomad/jobs/identity-socket
          ask -H "X-Nomad-Token: $NOMAD_TOKEN" localhost/v1/var/nomad/jobs/identity-socket
          ask -H "X-Nomad-Token: $NOMAD_TOKEN" localhost/v1/services
          ask -H "X-Nomad-Token: wrong" localhost/v1/services
          curl -s --unix-socket api.sock -H "Authorization: Bearer $NOMAD_TOKEN" localhost/v1/var/nomad/jobs/identity-socket | grep -o '"word":"[a-z]*"
          EOF
        ]
      }
      identity {
        env = true
      }
    }
  }
}
