package structs

// CheckStatus is what the last run of a check found.
type CheckStatus string

// The statuses, with Nomad's names.
const (
	CheckPending CheckStatus = "pending" // it has not run since its task started
	CheckSuccess CheckStatus = "success"
	CheckFailure CheckStatus = "failure"
)

// The modes of a check: whether an allocation is healthy depends on it, or not.
const (
	CheckHealthiness = "healthiness"
	CheckReadiness   = "readiness"
)

// CheckResult is the newest result of a service's check, in the form that Nomad's API
// shows it in.
type CheckResult struct {
	ID         string
	Mode       string // CheckHealthiness or CheckReadiness
	Status     CheckStatus
	StatusCode int    `json:",omitempty"` // of an HTTP answer
	Output     string // for people, at most 3 KiB
	Timestamp  int64  // Unix seconds; 0: it has not run
	Group      string // the allocation's name
	Task       string `json:",omitempty"`
	Service    string
	Check      string
}
