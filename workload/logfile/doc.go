// Package logfile writes and reads a task's logs in Nomad's layout: BASE.0, BASE.1,
// …, the highest number being the newest, so that the HTTP API can address what was
// said before and after a rotation.
//
// It knows nothing of tasks. Start reading at [Writer], then [Follow].
package logfile
