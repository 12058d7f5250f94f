job "template-mode-unknown" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          stat -c "%a" local/x secrets/y; cat secrets/y
          EOF
        ]
      }
      template {
        data        = <<-EOF
          x
          EOF
        destination = "local/x"
        splay       = "0s"
        change_mode = "shout"
      }
      template {
        data        = <<-EOF
          y
          EOF
        destination = "secrets/y"
        splay       = "0s"
      }
    }
  }
}
