# A machine that other servers tell what to run.
datacenter = "south"

client {
  enabled = true

  server_join {
    retry_join     = ["192.0.2.21:4647"]
    retry_max      = 0
    retry_interval = "5s"
  }
}
