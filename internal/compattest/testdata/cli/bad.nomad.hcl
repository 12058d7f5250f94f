job "bad" {
  group "g" {
    count = -1
    task "t" {
      driver = "raw_exec"
    }
  }
}
