# Example: `mount` of all three kinds
job "mount" {
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
        mount {
          type     = "volume"
          target   = "/volume"
          source   = "named-for-mount"
          readonly = false
          volume_options {
            no_copy = false
            labels {
              made = "here"
            }
            driver_config {
              name = "local"
              options {
                type   = "tmpfs"
                device = "tmpfs"
                o      = "size=1m"
              }
            }
          }
        }
        mount {
          type     = "bind"
          target   = "/bound"
          source   = "/usr/share"
          readonly = false
          bind_options {
            propagation = "rprivate"
          }
        }
        mount {
          type     = "tmpfs"
          target   = "/scratch"
          readonly = false
          tmpfs_options {
            size = 200000
          }
        }
        command = "sh"
        args    = ["-c", "grep -E ' /(volume|scratch) ' /proc/mounts | cut -d' ' -f2,3; test -d /bound/doc && echo bound; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
