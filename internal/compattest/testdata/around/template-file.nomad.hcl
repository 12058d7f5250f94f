job "template-file" {
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
          {{ file "local/none" }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
