# Example: `volume_driver`
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
        image = "busybox:1"
        volumes = [
          "kept-by-name:/data"
        ]
        volume_driver = "local"
        command       = "sh"
        args          = ["-c", "grep -c ' /data ' /proc/mounts; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
