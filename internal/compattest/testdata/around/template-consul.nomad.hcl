job "template-consul" {
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
          {{ key "x" }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
