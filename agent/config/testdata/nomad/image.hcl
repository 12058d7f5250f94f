# What is baked into an image of a machine; who it is comes later.
data_dir = "/srv/nomad/state"

log_level = "DEBUG"

enable_debug = true

bind_addr = "0.0.0.0"

disable_update_check = true
