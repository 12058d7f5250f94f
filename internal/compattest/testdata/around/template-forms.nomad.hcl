job "template-forms" {
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
          {{ with "{\"a\": [1, {\"b\": true}]}" | parseJSON }}{{ . | toJSON }} {{ . | toYAML }} {{ index .a 0 }}{{ end }} {{ "3" | parseInt | add 4 }} {{ "a=1;b=2" | replaceAll "=" ":" }} {{ "x: [1, 2]" | parseYAML | toYAML }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
