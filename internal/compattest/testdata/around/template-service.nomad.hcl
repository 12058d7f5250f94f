job "template-service" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          until grep -q http-ok local/x; do sleep 0.1; done; cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ range nomadService "http-ok" }}{{ .Name }} {{ .Tags | join "," }} {{ .JobID }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "noop"
      }
    }
  }
}
