# Runs once a year, or when it is told to.

job "nightly" {
  type      = "batch"
  node_pool = "edge"

  periodic {
    crons            = ["0 0 1 1 *"]
    prohibit_overlap = true
  }

  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/echo"
        args    = ["swept by ${NOMAD_JOB_NAME}"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
