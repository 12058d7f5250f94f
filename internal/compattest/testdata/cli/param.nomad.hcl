job "param" {
  type = "batch"
  parameterized {
    payload       = "optional"
    meta_required = ["who"]
  }
  group "g" {
    ephemeral_disk {
      size = 20
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo hi $NOMAD_META_who"]
      }
      resources {
        cpu    = 10
        memory = 20
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
