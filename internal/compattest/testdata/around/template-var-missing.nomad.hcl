job "template-var-missing" {
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
          {{ with nomadVar "nomad/jobs/nothing" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
