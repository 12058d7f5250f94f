// Package rootfs makes a host directory visible to a guest without letting it out:
// a file system for wazero on top of [os.Root]. wazero's own directory mounts
// follow symbolic links that lead out of them; these do not, whether a guest made
// the link or it lay there already. Links that stay inside work.
//
// It knows nothing of plugins, grants or tasks. Start reading at [Open].
package rootfs
