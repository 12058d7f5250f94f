# One of three servers that elect a leader.
datacenter = "north"
data_dir   = "/srv/nomad/state"

server {
  enabled            = true
  bootstrap_expect   = 3
  encrypt            = "not a key, but as long as one would be"
  heartbeat_grace    = "20s"
  raft_multiplier    = 2
  redundancy_zone    = "hall-b"
  license_path       = "/srv/nomad/licence"
  server_join {
    retry_join     = ["192.0.2.11", "192.0.2.12:4648"]
    retry_max      = 5
    retry_interval = "20s"
  }
  raft_logstore {
    backend = "wal"
  }
}

client {
  enabled = false
}

autopilot {
  cleanup_dead_servers = true
}
