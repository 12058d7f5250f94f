job "identity-signal" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          claim() { echo "$1" | cut -d. -f2 | tr -- -_ +/ | sed 's/$/===/' | base64 -d 2>/dev/null; }
          old=$(cat secrets/nomad_cloud.jwt); trap 'echo signal; test "$old" != "$(cat secrets/nomad_cloud.jwt)" && echo another; exit 0' USR1; while :; do sleep 0.1; done
          EOF
        ]
      }
      identity {
        name          = "cloud"
        aud           = ["a"]
        file          = true
        ttl           = "5s"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
      }
    }
  }
}
