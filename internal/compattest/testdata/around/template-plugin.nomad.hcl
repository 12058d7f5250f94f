job "template-plugin" {
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
          {{ plugin "/bin/echo" "x" }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
