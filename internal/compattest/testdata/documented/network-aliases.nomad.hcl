# Example: `network_mode` of a user's network, and `network_aliases`
job "network-aliases" {
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
        image        = "busybox:1"
        network_mode = "user-network"
        network_aliases = [
          "${NOMAD_TASK_NAME}",
          "${NOMAD_TASK_NAME}-${NOMAD_ALLOC_INDEX}"
        ]
        command = "sh"
        args    = ["-c", "nslookup t-0 127.0.0.11 | grep -c 'Address: 172'; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
