job "standard-env" {
  type = "batch"
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
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$NOMAD_ALLOC_INDEX\" = 0 && test \"$NOMAD_JOB_ID\" = standard-env && test \"$NOMAD_CPU_LIMIT\" = 10 && test \"$NOMAD_MEMORY_LIMIT\" = 20 && test \"$NOMAD_REGION\" = global && test \"$NOMAD_NAMESPACE\" = default && test -n \"$NOMAD_ALLOC_ID\" && test \"$NOMAD_SHORT_ALLOC_ID\" = \"$(echo \"$NOMAD_ALLOC_ID\" | cut -c1-8)\""]
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
