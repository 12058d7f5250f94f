acl {
  enabled   = true
  token_ttl = "30s"
}

tls {
  http = true
  rpc  = true

  ca_file   = "/srv/nomad/tls/ca.pem"
  cert_file = "/srv/nomad/tls/cert.pem"
  key_file  = "/srv/nomad/tls/key.pem"

  verify_server_hostname = true
  verify_https_client    = true
  tls_min_version        = "tls12"
}

limits {
  http_max_conns_per_client = 0
}

http_api_response_headers {
  "Access-Control-Allow-Origin" = "*"
}

keyring "aead" {
  active = true
}
