name       = "base"
datacenter = "north"

client {
  enabled    = true
  node_class = "small"
  meta {
    floor = "ground"
  }
}
