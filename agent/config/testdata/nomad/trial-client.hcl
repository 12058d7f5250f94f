# A client beside three servers of the same machine.
log_level    = "DEBUG"
data_dir     = "/srv/nomad/state"
name         = "attic-first"
enable_debug = true

client {
  enabled = true

  server_join {
    retry_join = ["127.0.0.1:4647", "127.0.0.1:14647", "127.0.0.1:24647"]
  }

  meta {
    shelf = "low"
  }
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}

ports {
  http = 14646
}
