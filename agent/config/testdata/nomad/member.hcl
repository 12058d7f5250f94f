# A machine of a cluster.
client {
  enabled = true
  servers = ["192.0.2.1:4647", "192.0.2.2:4647"]

  server_join {
    retry_join = ["192.0.2.3"]
  }
  default_ineligible = true
  min_dynamic_port   = 20000
  max_dynamic_port   = 30000
}

server {
  enabled          = false
  bootstrap_expect = 3
  start_join       = ["192.0.2.1"]
}
