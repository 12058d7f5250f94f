// Package rootfs makes host directories and files visible to a guest without letting
// it out: file systems for wazero on top of [os.Root]. wazero's own directory mounts
// follow symbolic links that lead out of them; these do not, whether a guest made
// the link or it lay there already. Links that stay inside work, unless they are
// absolute: a guest's absolute paths are not the host's. Between directories that are
// joined they work too ([Join]).
//
// What could hold a guest, or the host with it, cannot be opened: only files and
// directories can, no FIFO, device or socket.
//
// It knows nothing of plugins, grants or tasks. Start reading at [Open].
package rootfs
