job "template-perms" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          stat -c "%a %u %g" local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          x
          EOF
        destination = "local/x"
        splay       = "0s"
        perms       = "0640"
        uid         = 1
        gid         = 2
      }
    }
  }
}
