job "@NAME@" {
  update {
    min_healthy_time = "1s"
  }

  group "main" {
    task "hello" {
      driver = "@NAME@"

      config {
        script = "echo \"Hello, $1, from $NOMAD_TASK_NAME\"; exec sleep 3600"
        args   = ["world"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
