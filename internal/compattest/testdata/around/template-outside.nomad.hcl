job "template-outside" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          echo ran
          EOF
        ]
      }
      template {
        data        = <<-EOF
          x
          EOF
        destination = "../../../x"
        splay       = "0s"
      }
    }
  }
}
