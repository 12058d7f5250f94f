// Package failpoint names the instants at which a crash is worth trying: around a
// write, a rename, a fork and a call to the supervisor. In an ordinary build [Here] is
// nothing at all. A build with the tag "failpoint" kills its process there with
// SIGKILL if the environment asks for it:
//
//	WASMNODE_FAILPOINT=agent/client.db.commit:3  the third time that "wasmnode agent" gets there
//	WASMNODE_FAILPOINT_MARK=/tmp/died            make that file first; if it is there, live on
//	WASMNODE_FAILPOINT_LOG=/tmp/points           append a line for each point reached
//
// The crash campaign of cmd/wasmnode has such a build walk through all points.
package failpoint
