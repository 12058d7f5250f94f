job "template-var-exists" {
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
          {{ nomadVarExists "nomad/jobs/template-var-exists" }} {{ nomadVarExists "nomad/jobs/none" }} {{ nomadVarExists "nomad/jobs/template-var-exists@default" }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
