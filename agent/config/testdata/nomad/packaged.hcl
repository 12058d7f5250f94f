# As a package leaves it: one machine that asks itself.
data_dir  = "/srv/nomad/state"
bind_addr = "0.0.0.0"

addresses {
  http = "127.0.0.1"
}

server {
  enabled          = true
  bootstrap_expect = 1
}

client {
  enabled = true
  servers = ["127.0.0.1"]
}
