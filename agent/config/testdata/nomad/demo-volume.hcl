# A server and a client in one, with a directory for jobs and containers that may do all.
data_dir = "/srv/nomad/state"

server {
  enabled = true

  bootstrap_expect = 1
}

client {
  enabled = true
  host_volume "shared" {
    path = "/srv/nomad/orders"
  }
}

plugin "docker" {
  config {
    allow_privileged = true
  }
}
