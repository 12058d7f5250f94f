// Package ui is the node's web page at /ui/: rendered here, readable without JavaScript,
// and live with a little of it. All that it shows it asks Nomad's API for, with the
// request's own header, so that nobody sees more on the page than by the API.
//
// It must never know more of the node than a client of the API does, and it writes
// nothing. Start reading at [Handler]; a file holds one page or one group of them.
package ui
