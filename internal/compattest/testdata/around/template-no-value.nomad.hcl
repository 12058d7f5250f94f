job "template-no-value" {
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
          {{ with "{}" | parseJSON }}{{ .a }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
