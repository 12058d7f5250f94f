#compdef wasmnode
# The program completes its own commands, options and IDs, as bash asks for them.
autoload -U +X bashcompinit && bashcompinit
complete -o nospace -C /usr/bin/wasmnode wasmnode
