job "template-by-tag" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          until grep -q a:1 local/x; do sleep 0.1; done; cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ range $tag, $all := nomadService "tagged" | byTag }}{{ $tag }}:{{ len $all }} {{ end }}
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "noop"
      }
    }
  }
}
