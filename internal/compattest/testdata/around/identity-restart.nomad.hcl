job "identity-restart" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          claim() { echo "$1" | cut -d. -f2 | tr -- -_ +/ | sed 's/$/===/' | base64 -d 2>/dev/null; }
          test -e local/first && { echo again; exit 0; }; touch local/first; echo first; exec sleep 600
          EOF
        ]
      }
      identity {
        name        = "cloud"
        aud         = ["a"]
        file        = true
        ttl         = "5s"
        change_mode = "restart"
      }
    }
  }
}
