package host

import (
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
)

// BudgetError is a call that failed because its plugin has used up a budget: a recoverable
// RESOURCE_EXHAUSTED.
type BudgetError struct {
	Text string // one line: what the budget is, and what was used of it
}

// Error returns the text.
func (e *BudgetError) Error() string { return e.Text }

// Unwrap returns the code.
func (e *BudgetError) Unwrap() error { return abi.NewRecoverableError(abi.ResourceExhausted, e.Text) }

func exhausted(format string, args ...any) error { return &BudgetError{fmt.Sprintf(format, args...)} }

// mustRun reports whether an operation is called even when the plugin has no processor time
// left: what an operator ends tasks by. It is bounded by its own deadline.
func mustRun(op string) bool {
	return op == abi.OpDriverStopTask || op == abi.OpDriverDestroyTask || op == abi.OpDeviceRelease
}

// outOfTime is the error of a call for which the plugin has no processor time.
func (p *Plugin) outOfTime(wait time.Duration) error {
	p.counters.refused(func(s *Stats) { s.OutOfTime++ })
	return exhausted("plugin %s has used up its processor time, %v in a minute; it is called again in %v",
		p.Name(), p.host.cfg.Limits.CPUPerMinute, wait.Round(time.Second/10))
}

// outOfMemory is the error of a call for which the plugin got no memory, of its own budget or
// of that of all plugins.
func (p *Plugin) outOfMemory() error {
	p.counters.refused(func(s *Stats) { s.OutOfMemory++ })
	l := p.host.cfg.Limits
	return exhausted("plugin %s got no more memory: its instances have %d bytes of at most %d, those of all plugins %d of %d",
		p.Name(), p.budget.Memory(), l.PluginMemoryBytes, p.host.budget.Memory(), l.AllMemoryBytes)
}
