# The configuration of this node. Each .hcl file of this directory is read, in the order of their
# names; what a later one sets wins. What follows a # without a space could be. After a change:
#
#   wasmnode config validate /etc/wasmnode
#   systemctl reload wasmnode       (it names what takes effect after a restart)
#
# man wasmnode-agent tells of what may be in here in short, and docs/configuration.md at length.

# All that has to survive: jobs, what runs, variables, volumes. Plugins are dropped into its
# directory "plugins", while the agent runs, too.
data_dir = "/var/lib/wasmnode"

# Who may open this socket may run programs on this machine: root, and the members of the group.
#
#   export NOMAD_ADDR=unix:///run/wasmnode/api.sock
#
bind_addr         = "unix:///run/wasmnode/api.sock"
http_socket_group = "wasmnode"

# For others: an address in the place of the socket, with TLS and tokens.
#bind_addr = "0.0.0.0"
#ports { http = 4646 }
#http_hosts = ["node7.example"]
#acl { enabled = true }
#tls {
#  http                = true
#  ca_file             = "/etc/wasmnode/tls/ca.pem"
#  cert_file           = "/etc/wasmnode/tls/node.pem"
#  key_file            = "/etc/wasmnode/tls/node-key.pem"
#  verify_https_client = true
#}

# What the log has goes to the journal: journalctl -u wasmnode
log_level = "info" # trace, debug, info, warn, error

# Where jobs find the node.
#name       = "edge-7" # the machine's host name
#datacenter = "dc1"
#client {
#  node_class = "edge"
#  meta       = { rack = "r1" }
#}

# A plugin may do what it is granted here, and nothing else. The driver "wasi" runs WebAssembly
# from these directories; the one that is here came with the package.
plugin "wasi" {
  grant {
    wasm { directories = ["/usr/share/wasmnode/programs"] }
  }
}

# The driver "raw_exec" runs programs of this machine as root, without isolation. These:
#plugin "raw_exec" {
#  grant {
#    process { commands = ["/usr/bin/*"] }
#  }
#}
