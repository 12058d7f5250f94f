// Package stream holds the streams that the calls of plugins have open: connections, and
// exchanges of HTTP. A stream has two ends. The guest's never blocks the node's: between
// them is a bounded pipe each way, which the node's end fills or empties in a goroutine of
// its own, so that one guest, which has one thread, can wait for any of many streams.
//
// It knows nothing of how a connection was made, nor of what is granted. Start reading at
// [Table].
package stream
