job "command-args" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "docker"
      meta {
        color = "blue"
      }
      env {
        GREETING = "hello"
      }
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "echo $0 $1 $2 \"$3\"; sleep 1", "${NOMAD_TASK_NAME}", "${NOMAD_META_color}", "${GREETING}", "two  words"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
