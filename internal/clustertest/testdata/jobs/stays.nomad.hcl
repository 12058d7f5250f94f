# A batch task that a drain lets run until its deadline.

job "stays" {
  type      = "batch"
  node_pool = "edge"

  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["10000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
