# A server for trying things, as developers of Nomad start one.
log_level    = "DEBUG"
data_dir     = "/srv/nomad/state"
name         = "attic-alone"
enable_debug = true

server {
  enabled          = true
  bootstrap_expect = 1
}
