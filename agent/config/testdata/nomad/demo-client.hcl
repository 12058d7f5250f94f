# One of two clients on a machine, whose engine is the same.
log_level = "DEBUG"
data_dir  = "/srv/nomad/state"
name      = "attic-left"

client {
  enabled = true
  servers = ["127.0.0.1:4647"]
}

ports {
  http = 14656
}

plugin "docker" {
  config {
    gc {
      dangling_containers {
        enabled = false
      }
    }
  }
}
