# The node that the shop's jobs run on: they are programs of the machine.
#
#   wasmnode agent -config guest-examples/jobs/shop/node.hcl -data-dir DIR -plugin-dir bin/plugins

plugin "raw_exec" {
  grant {
    process {
      commands = ["/bin/*", "/usr/bin/*"]
    }
  }
}
