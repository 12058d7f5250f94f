job "template-var-of-job-twice" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs" }}{{ .shared }}{{ end }}{{ with nomadVar "nomad/jobs/template-var-of-job-twice" }}{{ .word }}{{ .number }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
