# Everything that is there for others.
leave_on_terminate = true
enable_syslog      = true
syslog_facility    = "LOCAL3"
log_level          = "WARN"
log_json           = true
log_file           = "/srv/nomad/log/agent.log"
log_rotate_bytes   = 1048576
disable_update_check = true

advertise {
  http = "192.0.2.7"
  rpc  = "192.0.2.7"
}

consul {
  address          = "127.0.0.1:8500"
  auto_advertise   = true
  client_auto_join = true

  service_identity {
    aud = ["consul.example"]
    ttl = "30m"
  }
}

vault {
  enabled = true
  address = "https://vault.example:8200"

  default_identity {
    aud = ["vault.example"]
  }
}

autopilot {
  last_contact_threshold = "500ms"
}

reporting {
  license {
    enabled = false
  }
}

rpc {
  keep_alive_interval = "20s"
}

keyring "aead" {
  active = true
}

http_api_response_headers {
  "X-Served-By" = "attic"
}

limits {
  https_handshake_timeout   = "3s"
  http_max_conns_per_client = 50
  rpc_max_conns_per_client  = 50
}

ui {
  enabled = false

  consul {
    ui_url = "https://consul.example/ui"
  }
  label {
    text             = "Attic"
    background_color = "#663399"
  }
  content_security_policy {
    connect_src = ["*"]
  }
}
