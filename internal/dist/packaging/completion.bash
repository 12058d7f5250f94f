# The program completes its own commands, options and IDs.
complete -C /usr/bin/wasmnode wasmnode
