# Runs for each time that it is dispatched, with a payload.

job "greets" {
  type      = "batch"
  node_pool = "edge"

  parameterized {
    payload       = "required"
    meta_required = ["who"]
  }

  group "g" {
    task "t" {
      driver = "raw_exec"
      dispatch_payload {
        file = "words"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_META_who: $(cat $NOMAD_TASK_DIR/words)"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
