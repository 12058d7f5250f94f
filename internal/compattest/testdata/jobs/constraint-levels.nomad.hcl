job "constraint-levels" {
  type = "batch"
  constraint {
    attribute = "${node.pool}"
    value     = "default"
  }
  constraint {
    attribute = "${attr.nomad.version}"
    operator  = "is_set"
  }
  group "g" {
    ephemeral_disk {
      size = 20
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "set_contains_any"
      value     = "linux,darwin"
    }
    constraint {
      attribute = "${node.class}"
      operator  = "!="
      value     = "gpu"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      constraint {
        attribute = "${attr.cpu.numcores}"
        operator  = ">="
        value     = "1"
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
