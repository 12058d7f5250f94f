# As it was written long ago.
telemetry = {
  disable_hostname = true
  statsite_address = "127.0.0.1:8125"
}

ports = {
  http = 4646
  rpc  = 4647
}

client = {
  enabled = true
  meta = {
    "floor" = "top"
  }
  options = {
    "driver.allowlist" = "raw_exec,wasi"
  }
}

plugin "raw_exec" {
  config = {
    enabled = true
  }
}
