node_pool "edge" {
  description = "Nodes at the edge"
}
