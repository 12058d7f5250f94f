// Package eventsink tells receivers what happens on a node: each [Sink] follows the events of the
// control plane and hands them to one receiver, a webhook, a file or systemd's journal, at least
// once and in their order.
//
// A sink is never in the way of the node: it has no queue of its own, but reads the control plane's
// buffer of events, which has a bound and waits for nobody. What is kept there no more before a
// receiver took it is counted, and the receiver is told what has changed since as it is then. How
// far a receiver was told is kept in a file, by which a sink goes on after a restart.
//
// It knows nothing of configuration files and of what is in an event. Start reading at [Sink.Run].
package eventsink
