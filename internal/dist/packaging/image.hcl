# The configuration of the image, to be mounted over. "docker exec CONTAINER wasmnode node status"
# asks the node.
data_dir  = "/var/lib/wasmnode"
bind_addr = "unix:///run/wasmnode/api.sock"

# The driver "wasi" runs WebAssembly from this directory.
plugin "wasi" {
  grant {
    wasm { directories = ["/usr/share/wasmnode/programs"] }
  }
}
