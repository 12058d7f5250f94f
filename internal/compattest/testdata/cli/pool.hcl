node_pool "fast" {
  description = "those with SSDs"
  meta {
    disk = "ssd"
  }
}
