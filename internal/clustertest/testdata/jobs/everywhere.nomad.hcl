# A task on each node of every pool.

job "everywhere" {
  type      = "system"
  node_pool = "all"

  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo on ${node.unique.name}; exec sleep 10000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
