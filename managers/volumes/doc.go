// Package volumes makes and removes dynamic host volumes: the built-in plugin makes
// directories, and others are programs of Nomad's protocol, which are run once for each call.
// Every volume is below one directory. The package remembers nothing: which volumes there are
// is the control plane's to know, and to have made again when the node starts.
//
// Start reading at [Manager.Create].
package volumes
