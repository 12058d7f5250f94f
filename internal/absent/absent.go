// Package absent says what of Nomad's there is none of, in the words of the API and of the
// commands alike.
package absent

// What several paths and commands are told.
const (
	Login        = "there are no ways to log in but tokens, whose secret lets in"
	Peers        = "a node is its own server, and knows no others"
	Gossip       = "gossip has no keys: a node is its own server, and talks to no others"
	Introduction = "a node is its own server: it is introduced to none, and has no identity for others"
)
