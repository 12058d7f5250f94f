job "template-var-of-others" {
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
          {{ with nomadVar "app/other" }}{{ .word }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
