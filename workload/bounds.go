package workload

// Bounds are what a process and all that it starts is held to besides what its user may. The
// zero value is the node's own.
type Bounds struct {
	Limits []Limit `json:",omitempty"`
	// OOMScoreAdj is how much sooner than others the kernel kills it for want of memory: from
	// 0 to 1000.
	OOMScoreAdj int `json:",omitempty"`
}

// None reports whether the bounds are the node's own.
func (b Bounds) None() bool { return len(b.Limits) == 0 && b.OOMScoreAdj == 0 }

// Limit is one of setrlimit(2), in its own unit. It is no higher than the supervisor's.
type Limit struct {
	Name       string // such as "nofile"
	Soft, Hard uint64
}

// Capabilities are a set of Linux's: 1 << CAP_CHOWN and so on.
type Capabilities uint64
