# A client of it, whose port is another one, since both are on one machine.
region   = "north"
data_dir = "/srv/nomad/state"

client {
  enabled = true
  servers = ["127.0.0.1:4647"]
}

ports {
  http = 14656
}

tls {
  http = true
  rpc  = true

  ca_file   = "/srv/nomad/tls/ca.pem"
  cert_file = "/srv/nomad/tls/cert.pem"
  key_file  = "/srv/nomad/tls/key.pem"

  verify_server_hostname = true
  verify_https_client    = true
}
