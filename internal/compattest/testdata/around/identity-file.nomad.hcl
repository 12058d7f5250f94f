job "identity-file" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          claim() { echo "$1" | cut -d. -f2 | tr -- -_ +/ | sed 's/$/===/' | base64 -d 2>/dev/null; }
          stat -c "%a %n" secrets/nomad_token; claim "$(cat secrets/nomad_token)" | tr , '\n' | sed 's/[{}]//g' | grep -E '"(aud|sub|nomad_job_id|nomad_task|nomad_namespace)"' | sed 's/\[//;s/\]//' | sort
          EOF
        ]
      }
      identity {
        file = true
      }
    }
  }
}
