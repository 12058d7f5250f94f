job "volume-driver" {
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
        image         = "busybox:1"
        volume_driver = "local"
        volumes       = ["named:/data"]
        command       = "true"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
