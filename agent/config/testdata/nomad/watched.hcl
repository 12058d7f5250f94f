telemetry {
  collection_interval        = "5s"
  disable_hostname           = true
  prometheus_metrics         = true
  publish_allocation_metrics = true
  statsd_address             = "192.0.2.9:8125"
}

log_file             = "/var/log/nomad.log"
log_rotate_max_files = 5
enable_syslog        = true

ui {
  enabled = true
  label { text = "staging" }
}

consul {
  address = "127.0.0.1:8500"
}

vault "other" {
  enabled = true
  address = "https://192.0.2.8"
}
