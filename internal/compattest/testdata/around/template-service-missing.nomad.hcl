job "template-service-missing" {
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
          [{{ range nomadService "nobody" }}{{ .Name }}{{ end }}]
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
