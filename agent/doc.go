// Package agent puts a node together: it reads the configuration, opens what is
// durable, starts the layers from the ground up, serves the HTTP API, and takes it all
// down in the opposite order. It decides nothing else.
//
// Start reading at [Run].
package agent
