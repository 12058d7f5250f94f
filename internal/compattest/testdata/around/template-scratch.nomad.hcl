job "template-scratch" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cat local/x
          EOF
        ]
      }
      template {
        data        = <<-EOF
          {{ scratch.Set "a" 1 }}{{ scratch.Get "a" }} {{ scratch.Key "b" }} {{ scratch.SetX "a" 2 }}{{ scratch.Get "a" }} {{ scratch.MapSet "m" "k" "v" }}{{ scratch.MapValues "m" }}
          EOF
        destination = "local/x"
        splay       = "0s"
      }
    }
  }
}
