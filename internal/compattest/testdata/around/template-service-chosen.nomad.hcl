job "template-service-chosen" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          until grep -q "thrice thrice" local/x; do sleep 0.1; done; cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ range nomadService 2 "key" "thrice" }}{{ .Name }} {{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "noop"
      }
    }
  }
}
