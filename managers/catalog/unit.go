package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// Deadlines of the calls that are about the plugin itself.
const (
	configureDeadline = 10 * time.Second
	// FingerprintDeadline is how long a plugin has to answer a fingerprint.
	FingerprintDeadline = 10 * time.Second
)

// Kind is what makes a [Unit] a driver or a device plugin.
type Kind interface {
	// Fingerprint asks for the plugin's fingerprint, checks it and keeps it.
	Fingerprint(ctx context.Context) (Answer, error)
	// Run does what else a plugin in service needs. It returns when there is
	// nothing more to do, or ctx is done.
	Run(ctx context.Context)
}

// Answer is the part of a fingerprint about the plugin itself.
type Answer struct {
	Healthy  bool
	Text     string        // the plugin's own description
	NextPoll time.Duration // when it asks to be polled again; 0: at the default
}

// Unit is one version of a plugin under supervision. It is in charge of its name from
// [Registry.Take] until it is replaced or its file is removed, and stays until its
// registry and all who use it have let go. Its methods may be called concurrently.
type Unit struct {
	registry *Registry
	kind     Kind
	plugin   Plugin
	name     string
	logger   hclog.Logger

	pluginSchema *configschema.Schema
	order        uint64 // in which it was put in charge; 0: not yet; guarded by the registry's mu

	replaced chan struct{} // closed when another version is in charge of the name
	gone     chan struct{} // closed when the plugin is closed
	wake     wake.Signal   // there is something new for run

	mu          sync.Mutex
	refs        int
	held        bool // one of refs is the registry's
	supervision supervision
	due         time.Time // when to ask next; zero: not at all
	given       given     // what its operator decided
	configured  bool
	stale       bool               // it is configured with something else than what is given
	outdated    context.CancelFunc // ends the configuring under way
	asked       time.Time          // when it last answered
	changed     chan struct{}      // closed and replaced with each change of supervision
}

// newUnit returns a unit that is not brought up. It fails when the schema of the plugin's
// configuration is none.
func newUnit(r *Registry, c Candidate) (*Unit, error) {
	d := c.Plugin.Description()
	u := &Unit{
		registry: r, plugin: c.Plugin, name: d.GetName(), given: given{c.Grants, c.Config}, outdated: func() {},
		logger:   r.cfg.Logger.With("plugin", d.GetName(), "file", c.File),
		replaced: make(chan struct{}), gone: make(chan struct{}), wake: wake.New(),
		refs: 1, held: true, supervision: newSupervision(time.Now()), changed: make(chan struct{}),
	}
	var err error
	if u.kind, err = r.cfg.New(u); err != nil {
		return nil, err
	}
	if u.pluginSchema, err = configschema.Compile(d.GetPluginConfigSchema()); err != nil {
		return nil, fmt.Errorf("describe: plugin_config_%w", err)
	}
	return u, nil
}

// Name returns the name that the plugin gave itself.
func (u *Unit) Name() string { return u.name }

// Digest returns the SHA-256 of the plugin's file, in hexadecimal.
func (u *Unit) Digest() string { return u.plugin.Digest() }

// Plugin returns the plugin, to be called by who holds a reference.
func (u *Unit) Plugin() Plugin { return u.plugin }

// Kind returns what the registry's New returned for the unit.
func (u *Unit) Kind() Kind { return u.kind }

// Grants returns what the operator grants the plugin; read-only.
func (u *Unit) Grants() host.Grants {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.given.grants
}

// Logger returns the logger for what is about this plugin.
func (u *Unit) Logger() hclog.Logger { return u.logger }

// Replaced is closed when another version is in charge of the name.
func (u *Unit) Replaced() <-chan struct{} { return u.replaced }

// bringUp configures the plugin and asks for its first fingerprint, before it is
// in charge of anything. With requireAnswer, anything but an answer is an error: there is
// a version that works. Otherwise the plugin is kept, and asked again.
func (u *Unit) bringUp(ctx context.Context, requireAnswer bool) error {
	e := u.ask(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := e.(answered); !ok && requireAnswer {
		return errors.New(reasonOf(e))
	}
	u.apply(e)
	return nil
}

func reasonOf(e event) string {
	switch e := e.(type) {
	case refused:
		return e.reason
	case faulted:
		return e.reason
	}
	return ""
}

// run asks the plugin whenever it is due, until it is retired.
func (u *Unit) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { u.kind.Run(ctx) })
	for {
		u.mu.Lock()
		due, retired := u.due, !u.held
		u.mu.Unlock()
		if retired || ctx.Err() != nil {
			return
		}
		wait := time.Duration(1<<63 - 1)
		if !due.IsZero() {
			wait = time.Until(due)
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-u.wake.C():
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		u.poll(ctx)
	}
}

// poll asks once. The unit is kept meanwhile.
func (u *Unit) poll(ctx context.Context) {
	if !u.Acquire() {
		return
	}
	defer u.Release()
	e := u.ask(ctx)
	if ctx.Err() == nil {
		u.apply(e)
	}
}

// ask configures the plugin if it is not, and asks for its fingerprint. What comes
// of it is the event.
func (u *Unit) ask(ctx context.Context) event {
	if err := u.configure(ctx); err != nil {
		return failure("configure", err)
	}
	ctx, cancel := context.WithTimeout(ctx, FingerprintDeadline)
	defer cancel()
	answer, err := u.kind.Fingerprint(ctx)
	if err != nil {
		return failure("fingerprint", err)
	}
	u.mu.Lock()
	u.asked = time.Now()
	u.mu.Unlock()
	return answered{answer}
}

// failure distinguishes a guest that faulted from one that returned an error.
func failure(what string, err error) event {
	reason := what + ": " + OneLine(err)
	var fault *host.FaultError
	var grant *host.MissingGrantError
	switch {
	case errors.As(err, &fault):
		return faulted{OneLine(err)}
	case errors.As(err, &grant):
		return refused{OneLine(err), grant.Fix}
	}
	return refused{reason: reason}
}

// configure has the plugin configured with what is given, unless it is.
func (u *Unit) configure(ctx context.Context) error {
	for {
		u.mu.Lock()
		if u.configured && !u.stale {
			u.mu.Unlock()
			return nil
		}
		now := u.given
		u.stale = false
		trying, cancel := context.WithTimeout(ctx, configureDeadline)
		u.outdated = cancel
		u.mu.Unlock()
		err := u.handOver(trying, now)
		cancel()
		u.mu.Lock()
		again := u.stale && ctx.Err() == nil
		u.configured = err == nil || again && u.configured
		u.mu.Unlock()
		if !again {
			return err
		}
	}
}

// handOver checks the operator's configuration and hands it over.
func (u *Unit) handOver(ctx context.Context, what given) error {
	value, err := u.checkConfig(what.config)
	if err != nil {
		u.plugin.Grant(ctx, what.grants)
		return err
	}
	config, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("plugin %q: %w", u.name, err)
	}
	return u.plugin.Configure(ctx, what.grants, config)
}

// checkConfig checks a configuration and returns it with defaults applied.
func (u *Unit) checkConfig(config map[string]any) (map[string]any, error) {
	value, err := u.pluginSchema.Check("config", config)
	if err != nil {
		return nil, fmt.Errorf("plugin %q: %w", u.name, err)
	}
	return value, nil
}

// settle gives the plugin what its operator decided, if that is something else than before:
// grants at once, the configuration as soon as the plugin takes it.
func (u *Unit) settle(what given) {
	u.mu.Lock()
	same := u.given.equal(what)
	u.given = what
	if !same {
		u.stale = true
		u.outdated() // what it would configure now is not to be in force
	}
	u.mu.Unlock()
	if same {
		return
	}
	u.plugin.Grant(context.Background(), what.grants)
	u.apply(revived{})
}

// apply steps the plugin's supervision and does what follows from it. It returns the
// effects that are the caller's to act on.
func (u *Unit) apply(e event) (failed bool) {
	now := time.Now()
	u.mu.Lock()
	before := u.supervision
	after, effects := before.step(now, e)
	u.supervision = after
	for _, effect := range effects {
		switch effect := effect.(type) {
		case poll:
			u.due = now.Add(effect.after)
		case stopPolling:
			u.due = time.Time{}
		case failTask:
			failed = true
		}
	}
	moved := before.State != after.State || before.Reason != after.Reason
	if moved {
		close(u.changed)
		u.changed = make(chan struct{})
	}
	u.mu.Unlock()
	u.wake.Set()
	if moved {
		u.log(before, after)
	}
	u.registry.Announce(u)
	return failed
}

func (u *Unit) log(before, after supervision) {
	switch {
	case before.State == after.State && before.Reason == after.Reason:
	case after.State == StateHealthy, after.State == StateRemoved:
		u.logger.Info("plugin is "+string(after.State), "before", before.State)
	default:
		u.logger.Warn("plugin is "+string(after.State), "before", before.State, "reason", after.Reason)
	}
}

// Refresh has the fingerprint asked for soon, but not more often than plugins may
// wish for.
func (u *Unit) Refresh() {
	u.mu.Lock()
	if !u.due.IsZero() && u.supervision.refusals == 0 && u.supervision.State != StateRestarting {
		if soon := u.asked.Add(MinPollInterval); soon.Before(u.due) {
			u.due = soon
		}
	}
	u.mu.Unlock()
	u.wake.Set()
}

// Usable returns why the plugin cannot serve new tasks now, as an abi.Error.
func (u *Unit) Usable() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	why := fmt.Sprintf("%s %q is %s: %s", u.plugin.Spec().Kind, u.name, u.supervision.State, u.supervision.Reason)
	switch {
	case u.supervision.State == StateRestarting, u.supervision.State == StateQuarantined:
		return abi.NewRecoverableError(abi.Unavailable, why)
	case !u.configured:
		return abi.NewError(abi.FailedPrecondition, why)
	}
	return nil
}

// Quarantined returns why the plugin is not to be called at all, as an abi.Error.
func (u *Unit) Quarantined() error {
	u.mu.Lock()
	quarantined := u.supervision.State == StateQuarantined
	u.mu.Unlock()
	if quarantined {
		return u.Usable()
	}
	return nil
}

// Down reports whether calls are pointless now, and returns what is closed when
// that may have changed.
func (u *Unit) Down() (down bool, changed <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.supervision.State == StateRestarting || u.supervision.State == StateQuarantined || !u.configured, u.changed
}

// Health returns how the plugin is, and what is closed when that may have changed.
func (u *Unit) Health() (Health, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.supervision.Health, u.changed
}

// Remove takes the plugin out of service for new calls, and says why.
func (u *Unit) Remove(why string) {
	u.registry.remove(u)
	u.apply(removed{why})
	u.registry.mu.Lock()
	defer u.registry.mu.Unlock()
	u.registry.drop(u)
}

// Revive ends a quarantine, or asks for a fingerprint now.
func (u *Unit) Revive() { u.apply(revived{}) }

// Closed is closed when the plugin is not used any more.
func (u *Unit) Closed() <-chan struct{} { return u.gone }

// replace takes the unit out of service because another version is in charge. The
// caller holds the registry's mu.
func (u *Unit) replace() {
	if !wake.IsClosed(u.replaced) {
		close(u.replaced)
	}
	u.registry.drop(u)
}

// leave releases the registry's reference, once.
func (u *Unit) leave() {
	u.mu.Lock()
	held := u.held
	u.held = false
	u.mu.Unlock()
	u.wake.Set()
	if held {
		u.Release()
	}
}

// Acquire adds a reference; false: the plugin is closed already.
func (u *Unit) Acquire() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refs == 0 {
		return false
	}
	u.refs++
	return true
}

// Release gives a reference back; with the last one the plugin is closed.
func (u *Unit) Release() {
	u.mu.Lock()
	u.refs--
	last := u.refs == 0
	u.mu.Unlock()
	if !last {
		return
	}
	u.plugin.Close()
	u.registry.forget(u)
	close(u.gone)
}

// TaskError gives the error of a call about a task a code. A fault of the guest is
// counted against that task: UNAVAILABLE and recoverable the first time, INTERNAL and
// final from its second on. A budget that is used up is the plugin's, whose health says so.
func (u *Unit) TaskError(task string, err error) error {
	var budget *host.BudgetError
	if errors.As(err, &budget) {
		u.apply(exhausted{OneLine(err)})
		return err
	}
	var fault *host.FaultError
	if !errors.As(err, &fault) {
		return err
	}
	if u.apply(taskFaulted{task: task, reason: OneLine(err)}) {
		return &taskFaultError{abi.NewError(abi.Internal, fmt.Sprintf("the %s faulted %d times while handling this task, last: %s", u.plugin.Spec().Kind, maxTaskFaults, OneLine(err))), fault}
	}
	return &taskFaultError{abi.NewRecoverableError(abi.Unavailable, OneLine(err)), fault}
}

// taskFaultError is a guest's fault while it handled a task, in the words of the
// contract.
type taskFaultError struct {
	answer *abi.Error
	fault  *host.FaultError
}

func (e *taskFaultError) Error() string { return e.answer.Message }

// Unwrap gives both.
func (e *taskFaultError) Unwrap() []error { return []error{e.answer, e.fault} }
