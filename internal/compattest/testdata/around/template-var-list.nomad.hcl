job "template-var-list" {
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
          {{ range nomadVarList "nomad/jobs/template-var-l" }}{{ .Path }} {{ end }}{{ range nomadVarListSafe "nomad/jobs/template-var-list" }}{{ . }} {{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
