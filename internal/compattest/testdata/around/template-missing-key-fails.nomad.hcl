job "template-missing-key-fails" {
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
        data                 = <<-EOF
          {{ with "{}" | parseJSON }}{{ .a }}{{ end }}
          EOF
        destination          = "local/x"
        splay                = "0s"
        error_on_missing_key = true
      }
    }
  }
}
