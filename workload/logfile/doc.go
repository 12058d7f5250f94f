// Package logfile writes and reads a task's logs in Nomad's layout: BASE.0, BASE.1,
// …, the highest number being the newest, so that the HTTP API can address what was
// said before and after a rotation.
//
// The directory of a log may be one that the task itself can write (in Nomad's layout
// it is). So whatever is there may be hostile: symbolic links, FIFOs, directories
// and strange numbers are neither followed nor waited for.
//
// It knows nothing of tasks. Start reading at [Writer], then [Follow].
package logfile
