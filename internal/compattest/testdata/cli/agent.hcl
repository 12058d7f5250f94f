log_level = "INFO"
data_dir = "/var/lib/nomad"
client {
  enabled = true
}
