package managers

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
)

// Deadlines of the calls that are about the plugin itself.
const (
	configureDeadline   = 10 * time.Second
	fingerprintDeadline = 10 * time.Second
)

// kind is what makes a unit a driver or a device plugin.
type kind interface {
	// fingerprint asks for the plugin's fingerprint, checks it and keeps it.
	fingerprint(ctx context.Context) (answered, error)
	// attend does what else a plugin in service needs. It returns when there is
	// nothing more to do, or ctx is done.
	attend(ctx context.Context)
}

// unit is one version of a plugin under supervision. It is in charge of its name from
// take until it is replaced or its file is removed, and lives until its fleet and all
// who use it have let go.
type unit struct {
	fleet  *fleet
	kind   kind
	plugin Plugin
	name   string
	file   string
	digest string
	logger hclog.Logger

	pluginSchema *configschema.Schema
	order        uint64 // in which it was put in charge; 0: not yet; guarded by the fleet's mu

	replaced chan struct{} // closed when another version is in charge of the name
	gone     chan struct{} // closed when the plugin is closed
	wake     chan struct{} // capacity 1: there is something new for run

	mu         sync.Mutex
	refs       int
	held       bool // one of refs is the fleet's
	life       life
	due        time.Time // when to ask next; zero: not at all
	configured bool
	asked      time.Time     // when it last answered
	moved      chan struct{} // closed and replaced with each change of life
}

// newUnit returns a unit that is not brought up; its kind is the caller's to set. It
// fails when the schema of the plugin's configuration is none.
func newUnit(f *fleet, c candidate) (*unit, error) {
	d := c.plugin.Description()
	u := &unit{
		fleet: f, plugin: c.plugin, name: d.GetName(), file: c.file, digest: c.digest,
		logger:   f.logger.With("plugin", d.GetName(), "file", c.file),
		replaced: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1),
		refs: 1, held: true, life: newLife(time.Now()), moved: make(chan struct{}),
	}
	var err error
	if u.pluginSchema, err = configschema.Compile(d.GetPluginConfigSchema()); err != nil {
		return nil, fmt.Errorf("describe: plugin_config_%w", err)
	}
	return u, nil
}

// bringUp configures the plugin and asks for its first fingerprint, before it is
// in charge of anything. Strictly, anything but an answer is an error: there is a
// version that works. Otherwise the plugin is kept, and asked again.
func (u *unit) bringUp(ctx context.Context, strictly bool) error {
	e := u.ask(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := e.(answered); !ok && strictly {
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
func (u *unit) run(ctx context.Context) {
	var attending sync.WaitGroup
	defer attending.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	attending.Go(func() { u.kind.attend(ctx) })
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
			case <-u.wake:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		u.poll(ctx)
	}
}

// poll asks once. The unit is kept meanwhile.
func (u *unit) poll(ctx context.Context) {
	if !u.acquire() {
		return
	}
	defer u.release()
	e := u.ask(ctx)
	if ctx.Err() == nil {
		u.apply(e)
	}
}

// ask configures the plugin if it is not, and asks for its fingerprint. What comes
// of it is the event.
func (u *unit) ask(ctx context.Context) event {
	u.mu.Lock()
	configured := u.configured
	u.mu.Unlock()
	if !configured {
		if err := u.configure(ctx); err != nil {
			return failure("configure", err)
		}
		u.mu.Lock()
		u.configured = true
		u.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, fingerprintDeadline)
	defer cancel()
	e, err := u.kind.fingerprint(ctx)
	if err != nil {
		return failure("fingerprint", err)
	}
	u.mu.Lock()
	u.asked = time.Now()
	u.mu.Unlock()
	return e
}

// failure tells a guest that broke from one that said no.
func failure(what string, err error) event {
	reason := what + ": " + oneLine(err)
	var fault *host.FaultError
	var grant *host.MissingGrantError
	switch {
	case errors.As(err, &fault):
		return faulted{oneLine(err)}
	case errors.As(err, &grant):
		return refused{oneLine(err)}
	}
	return refused{reason}
}

// configure checks the operator's configuration and hands it over.
func (u *unit) configure(ctx context.Context) error {
	var given map[string]any
	if u.fleet.config != nil {
		given = u.fleet.config(u.name)
	}
	value, err := u.pluginSchema.Check("config", given)
	if err != nil {
		return fmt.Errorf("plugin %q: %w", u.name, err)
	}
	config, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("plugin %q: %w", u.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, configureDeadline)
	defer cancel()
	return u.plugin.Configure(ctx, config)
}

// apply steps the plugin's life and does what follows from it. It returns the
// effects that are the caller's to act on.
func (u *unit) apply(e event) (failed bool) {
	now := time.Now()
	u.mu.Lock()
	before := u.life
	after, effects := before.step(now, e)
	u.life = after
	for _, effect := range effects {
		switch effect := effect.(type) {
		case ask:
			u.due = now.Add(effect.after)
		case rest:
			u.due = time.Time{}
		case failTask:
			failed = true
		}
	}
	moved := before.state != after.state || before.reason != after.reason
	if moved {
		close(u.moved)
		u.moved = make(chan struct{})
	}
	u.mu.Unlock()
	u.nudge()
	if moved {
		u.log(before, after)
	}
	u.fleet.announce(u)
	return failed
}

func (u *unit) log(before, after life) {
	switch {
	case before.state == after.state && before.reason == after.reason:
	case after.state == StateHealthy, after.state == StateRemoved:
		u.logger.Info("plugin is "+string(after.state), "before", before.state)
	default:
		u.logger.Warn("plugin is "+string(after.state), "before", before.state, "reason", after.reason)
	}
}

// nudge wakes run.
func (u *unit) nudge() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// refresh has the fingerprint asked for soon, but not more often than plugins may
// wish for.
func (u *unit) refresh() {
	u.mu.Lock()
	if !u.due.IsZero() && u.life.refusals == 0 && u.life.state != StateRestarting {
		if soon := u.asked.Add(minPollInterval); soon.Before(u.due) {
			u.due = soon
		}
	}
	u.mu.Unlock()
	u.nudge()
}

// usable says why the plugin cannot serve new tasks now, as an abi.Error.
func (u *unit) usable() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	why := fmt.Sprintf("%s %q is %s: %s", u.plugin.Type(), u.name, u.life.state, u.life.reason)
	switch {
	case u.life.state == StateRestarting, u.life.state == StateQuarantined:
		return abi.NewRecoverableError(abi.Unavailable, why)
	case !u.configured:
		return abi.NewError(abi.FailedPrecondition, why)
	}
	return nil
}

// quarantined says why the plugin is not to be called at all, as an abi.Error.
func (u *unit) quarantined() error {
	u.mu.Lock()
	quarantined := u.life.state == StateQuarantined
	u.mu.Unlock()
	if quarantined {
		return u.usable()
	}
	return nil
}

// down reports whether calls are pointless now, and returns what is closed when
// that may have changed.
func (u *unit) down() (down bool, changed <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.life.state == StateRestarting || u.life.state == StateQuarantined || !u.configured, u.moved
}

// status implements member.
func (u *unit) status() (State, string, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.life.state, u.life.reason, u.life.since
}

// remove implements member.
func (u *unit) remove() {
	u.fleet.remove(u)
	u.apply(removed{})
	u.fleet.mu.Lock()
	defer u.fleet.mu.Unlock()
	u.fleet.dismiss(u)
}

// revive implements member.
func (u *unit) revive() { u.apply(revived{}) }

// closed implements member.
func (u *unit) closed() <-chan struct{} { return u.gone }

// replace takes the unit out of service because another version is in charge. The
// caller holds the fleet's mu.
func (u *unit) replace() {
	if !isClosed(u.replaced) {
		close(u.replaced)
	}
	u.fleet.dismiss(u)
}

// leave gives up the fleet's reference, once.
func (u *unit) leave() {
	u.mu.Lock()
	held := u.held
	u.held = false
	u.mu.Unlock()
	u.nudge()
	if held {
		u.release()
	}
}

// acquire adds a reference; false: the plugin is closed already.
func (u *unit) acquire() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refs == 0 {
		return false
	}
	u.refs++
	return true
}

// release gives a reference back; with the last one the plugin is closed.
func (u *unit) release() {
	u.mu.Lock()
	u.refs--
	last := u.refs == 0
	u.mu.Unlock()
	if !last {
		return
	}
	u.plugin.Close()
	u.fleet.forget(u)
	close(u.gone)
}

// heldAgainst gives the error of a call about a task a code. A fault of the guest is
// held against that task: UNAVAILABLE and recoverable the first time, INTERNAL and
// final from its second on.
func (u *unit) heldAgainst(task string, err error) error {
	var fault *host.FaultError
	if !errors.As(err, &fault) {
		return err
	}
	if u.apply(taskFaulted{task: task, reason: oneLine(err)}) {
		return &taskFaultError{abi.NewError(abi.Internal, fmt.Sprintf("the %s faulted %d times while handling this task, last: %s", u.plugin.Type(), TaskStrikes, oneLine(err))), fault}
	}
	return &taskFaultError{abi.NewRecoverableError(abi.Unavailable, oneLine(err)), fault}
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
