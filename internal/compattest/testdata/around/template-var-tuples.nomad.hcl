job "template-var-tuples" {
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
          {{ with nomadVar "nomad/jobs/template-var-tuples" }}{{ range .Tuples }}{{ .K }}={{ .V }};{{ end }}{{ .Parent.Metadata.Path }}{{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
