// Package access decides which requests to the HTTP API are served: not those that a
// foreign web page has a browser send, not those by a name that is not the node's, not
// those without the token that they need, and not more at once than the node can bear.
//
// It knows nothing of what the API serves: the caller says what each route needs. Start
// reading at [Policy.Check]; bounds.go has what is bounded.
package access
