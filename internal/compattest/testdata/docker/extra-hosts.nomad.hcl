job "extra-hosts" {
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
      config {
        image       = "busybox:1"
        extra_hosts = ["db.example:10.9.8.7"]
        command     = "sh"
        args        = ["-c", "grep db.example /etc/hosts; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
