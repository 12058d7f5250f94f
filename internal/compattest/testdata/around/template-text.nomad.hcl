job "template-text" {
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
          {{ "a,b" | split "," | join "-" }} {{ "Hi" | toLower }} {{ "x" | base64Encode }} {{ "eA==" | base64Decode }} {{ "abc" | sha256Hex }} {{ "abc" | md5sum }} {{ "a.b" | replaceAll "." "/" }} {{ trimSpace " x " }} {{ "foo" | regexReplaceAll "o+" "0" }} {{ indent 2 "a" }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
