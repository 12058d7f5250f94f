job "identity-ttl" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          claim() { echo "$1" | cut -d. -f2 | tr -- -_ +/ | sed 's/$/===/' | base64 -d 2>/dev/null; }
          times=$(claim "$NOMAD_TOKEN_cloud" | tr , '\n' | sed 's/[{}]//g' | grep -E '"(exp|iat)"' | sort | cut -d: -f2)
          set -- $times; echo $(($1 - $2))
          EOF
        ]
      }
      identity {
        name = "cloud"
        aud  = ["a"]
        env  = true
        ttl  = "1h"
      }
    }
  }
}
