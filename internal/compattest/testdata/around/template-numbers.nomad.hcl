job "template-numbers" {
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
          {{ add 1 2 }} {{ subtract 1 2 }} {{ multiply 3 4 }} {{ divide 2 9 }} {{ modulo 3 10 }} {{ minimum 3 1 }} {{ maximum 3 1 }} {{ range loop 3 }}{{ . }}{{ end }} {{ timestamp "x" | len }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
