job "template-services" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          until grep -q tagged local/x; do sleep 0.1; done; cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ range nomadServices }}{{ if eq .Name "tagged" }}{{ .Name }} {{ .Tags | join "," }}{{ end }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "noop"
      }
    }
  }
}
