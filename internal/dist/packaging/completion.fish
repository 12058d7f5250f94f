# The program completes its own commands, options and IDs, as bash asks for them.
function __complete_wasmnode
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    /usr/bin/wasmnode
end
complete -f -c wasmnode -a "(__complete_wasmnode)"
