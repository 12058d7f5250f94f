# Where the store keeps the orders: a directory that the node makes.
#
#   wasmnode volume create guest-examples/jobs/shop/orders.volume.hcl

name      = "orders"
type      = "host"
plugin_id = "mkdir"

capability {
  access_mode     = "single-node-single-writer"
  attachment_mode = "file-system"
}
