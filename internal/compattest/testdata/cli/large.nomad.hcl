job "large" {
  type = "batch"
  group "g" {
    ephemeral_disk {
      size = 20
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/echo"
        args    = ["done"]
      }
      resources {
        cpu    = 10
        memory = 90000000
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
