// Package outbound is how plugins reach what is outside of them: connections over TCP and
// to unix sockets, TLS, and requests of HTTP. What was checked is what is used: a name is
// looked up once, a socket is opened without following links, and a URL that could mean
// another one to who receives it is refused.
//
// It does not know who asks, nor what is granted: its callers tell it what of a name's
// addresses may be dialled. Start reading at [Dialer], or at [ParseTarget].
package outbound
