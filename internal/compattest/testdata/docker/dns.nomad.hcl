job "dns" {
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
        image              = "busybox:1"
        dns_servers        = ["10.9.8.7"]
        dns_search_domains = ["example.org"]
        dns_options        = ["ndots:2"]
        command            = "sh"
        args               = ["-c", "cat /etc/resolv.conf; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
