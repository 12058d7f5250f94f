// Package recorded has what Nomad's own client and its servers were heard to say to each other:
// it hears them ([Tap]), takes the secrets and the machine out ([Scrub]), keeps what is left in
// files ([Write], [Read]), and tells in which fields another client differs ([Compare]).
//
// It is for tests only, and must know nothing of what the messages mean to a node. Start reading
// at [Exchange].
package recorded
