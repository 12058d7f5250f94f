# One of three servers of the same machine.
name = "attic-second"

server {
  enabled = true

  server_join {
    retry_join = ["127.0.0.1:4648", "127.0.0.1:24648"]
  }

  bootstrap_expect = 3
}

ports {
  http = 14646
  rpc  = 14647
  serf = 14648
}
