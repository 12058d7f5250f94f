# Is a plugin of CSI.

job "disk-plugin" {
  type      = "service"
  node_pool = "edge"

  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["10000"]
      }
      csi_plugin {
        id        = "disk"
        type      = "node"
        mount_dir = "/csi"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
