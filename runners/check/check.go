package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// scriptType is the type of a check that is a command in a task.
const scriptType = "script"

// ProviderNomad is the provider of services that need nothing outside the node.
const ProviderNomad = "nomad"

// The least time between two runs of a check, and for one: Nomad's.
const (
	minInterval = time.Second
	minTimeout  = time.Second
)

// Check is a check that was found possible. It does not change and may be used
// concurrently.
type Check struct {
	Service string
	Name    string
	// Task is the task that the check is of; empty: the group.
	Task string
	// Mode is structs.CheckHealthiness, or CheckReadiness when the allocation's
	// health does not depend on it.
	Mode     string
	Interval time.Duration
	Timeout  time.Duration
	Restart  *Restart // of Task, or of all the group's; nil: none is restarted

	ignoresWarnings bool // of a command

	port    string // a label or a number
	address string // of the service, if it has one of its own
	block   nomad.ServiceCheck
}

// Restart configures when a check that fails restarts its task.
type Restart struct {
	Limit int           // failures in a row
	Grace time.Duration // after a start, in which failures do not count

	ignoresWarnings bool
}

// New checks a check's block. owner is the task whose service it is; empty: the group's.
// The error describes in one line what is not supported or not possible.
func New(s *nomad.Service, c *nomad.ServiceCheck, owner string) (*Check, error) {
	out := &Check{
		Service: s.Name, Name: c.Name, Task: owner, Mode: structs.CheckHealthiness,
		Interval: c.Interval, Timeout: c.Timeout, port: c.PortLabel, address: s.Address, block: *c,
	}
	if out.Name == "" {
		out.Name = fmt.Sprintf("service: %q check", s.Name)
	}
	if out.port == "" {
		out.port = s.PortLabel
	}
	for _, name := range []string{c.TaskName, s.TaskName} {
		if out.Task == "" {
			out.Task = name
		}
	}
	onUpdate := c.OnUpdate
	if onUpdate == "" {
		onUpdate = s.OnUpdate
	}
	switch onUpdate {
	case "", nomad.OnUpdateRequireHealthy:
	case nomad.OnUpdateIgnoreWarn:
		out.ignoresWarnings = true
	case nomad.OnUpdateIgnore:
		out.Mode = structs.CheckReadiness
	default:
		return nil, fmt.Errorf("on_update: %q is none of require_healthy, ignore_warnings and ignore", onUpdate)
	}
	if err := out.possible(s.AddressMode, c); err != nil {
		return nil, err
	}
	return out, out.restart(s.CheckRestart.Merge(c.CheckRestart))
}

// possible finds what cannot be checked.
func (c *Check) possible(serviceMode string, b *nomad.ServiceCheck) error {
	mode := b.AddressMode
	if mode == "" {
		mode = serviceMode
	}
	switch {
	case b.Type == "http" && b.Path == "":
		return errors.New("path: an http check needs one")
	case !slices.Contains([]string{"http", "tcp", scriptType}, b.Type):
		return fmt.Errorf("type: %q is not supported: checks are tcp, http or script", b.Type)
	case !slices.Contains([]string{"", "http", "https"}, b.Protocol):
		return fmt.Errorf("protocol: %q is not supported: use http or https", b.Protocol)
	case !slices.Contains([]string{"", "auto", "host"}, mode):
		return fmt.Errorf("address_mode: %q is not supported: checks ask the host's ports", mode)
	case b.Expose:
		return errors.New("expose is not supported: there is no Connect")
	case c.port == "" && b.Type != scriptType:
		return errors.New("port: neither the check nor its service has one")
	case c.Interval < minInterval:
		return fmt.Errorf("interval: %v is less than %v", c.Interval, minInterval)
	case c.Timeout < minTimeout:
		return fmt.Errorf("timeout: %v is less than %v", c.Timeout, minTimeout)
	case b.SuccessBeforePassing > 0 || b.FailuresBeforeCritical > 0 || b.FailuresBeforeWarning > 0:
		return errors.New("success_before_passing, failures_before_critical and failures_before_warning are Consul's: they are not supported")
	}
	if b.Type == scriptType {
		return c.checkScript()
	}
	if b.Type == "http" {
		if u, err := url.Parse(b.Path); err != nil || u.IsAbs() || u.Host != "" {
			return fmt.Errorf("path: %q is not a path", b.Path)
		}
	}
	return nil
}

func (c *Check) restart(r *nomad.CheckRestart) error {
	switch {
	case r == nil || r.Limit == 0:
		return nil
	case r.Limit < 0:
		return fmt.Errorf("check_restart: limit: it can't be negative: it is %d", r.Limit)
	}
	c.Restart = &Restart{Limit: r.Limit, Grace: time.Second, ignoresWarnings: r.IgnoreWarnings}
	if r.Grace != nil {
		if c.Restart.Grace = *r.Grace; *r.Grace < 0 {
			return fmt.Errorf("check_restart: grace: it can't be negative: it is %v", *r.Grace)
		}
	}
	return nil
}

// Fails reports whether a result of the check counts as a failure of its task.
func (c *Check) Fails(r structs.CheckResult) bool {
	if c.block.Type == scriptType && r.StatusCode == exitWarning && c.Restart != nil && c.Restart.ignoresWarnings {
		return false
	}
	return r.Status == structs.CheckFailure
}

// Fits returns why the check cannot be one of the group's: it names a task that is none
// of them. Nil: it can.
func (c *Check) Fits(g *nomad.TaskGroup) error {
	if c.Task == "" || slices.ContainsFunc(g.Tasks, func(t *nomad.Task) bool { return t.Name == c.Task }) {
		return nil
	}
	return fmt.Errorf("task: the group has no task %q", c.Task)
}

// Port is the label or number of the port that is asked; empty: none is.
func (c *Check) Port() string { return c.port }

// ID identifies the check among those of an allocation, and its version.
func (c *Check) ID(allocID string) string {
	data, _ := json.Marshal([]any{allocID, c.Task, c.Service, c.port, c.block}) // texts and numbers
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// OfGroup gives the checks of a group's services and its tasks'. Services of another
// provider are not this node's to check. What is not possible is left out and reported.
func OfGroup(g *nomad.TaskGroup) (checks []*Check, err error) {
	var errs []error
	add := func(services []*nomad.Service, owner string) {
		for _, s := range services {
			if s.Provider != "" && s.Provider != ProviderNomad {
				continue
			}
			for i := range s.Checks {
				c, err := New(s, &s.Checks[i], owner)
				if err == nil {
					err = c.Fits(g)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("service %q: check %q: %w", s.Name, s.Checks[i].Name, err))
					continue
				}
				checks = append(checks, c)
			}
		}
	}
	add(g.Services, "")
	for _, t := range g.Tasks {
		add(t.Services, t.Name)
	}
	return checks, errors.Join(errs...)
}
