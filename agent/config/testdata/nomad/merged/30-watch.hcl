telemetry {
  use_node_name = true
}
consul {
  address = "127.0.0.1:8500"
}
