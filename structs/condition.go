package structs

import "time"

// Condition is something about an agent that its operator has to know: what it still does
// before it is all there, what it found wrong, what waits for a decision. A condition
// lasts until what it is about is over.
type Condition struct {
	// Name is what the condition is about, such as "server.db"; unique in an agent.
	Name string
	// Server: it is about the control plane, not about the client.
	Server bool
	// Unhealthy: the agent does not do all that it is there for.
	Unhealthy bool
	// Text is one line: what is the case.
	Text string
	// Remedy is one line: what to do about it, or to type; of what passes by itself, what to
	// do if it does not.
	Remedy string
	// Since is when the condition began.
	Since time.Time
}
