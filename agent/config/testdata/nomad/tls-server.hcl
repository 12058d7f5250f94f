# A single server whose API and RPC are encrypted.
log_level = "DEBUG"
region    = "north"
data_dir  = "/srv/nomad/state"

server {
  enabled          = true
  bootstrap_expect = 1
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
