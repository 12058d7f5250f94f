package managers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/schema"
	"github.com/wasmnode/wasmnode/structs"
)

// Deadlines of the calls that are about the driver itself.
const (
	configureDeadline   = 10 * time.Second
	fingerprintDeadline = 10 * time.Second
)

// Bounds of what a fingerprint puts on the node.
const (
	maxAttributes         = 256
	maxAttributeNameBytes = 128
	maxAttributeBytes     = 1 << 10
)

// unit is one version of a driver: a loaded plugin under supervision. It is in
// charge of its name from take until it is replaced or its file is removed, and
// lives until the manager and every [Driver] made of it have let go.
type unit struct {
	m      *DriverManager
	plugin Plugin
	name   string
	file   string
	digest string
	logger hclog.Logger

	taskSchema   *schema.Schema
	pluginSchema *schema.Schema

	replaced chan struct{} // closed when another version is in charge of the name
	gone     chan struct{} // closed when the plugin is closed
	wake     chan struct{} // capacity 1: there is something new for run

	mu         sync.Mutex
	refs       int
	held       bool // one of refs is the manager's
	life       life
	due        time.Time // when to ask next; zero: not at all
	configured bool
	last       *wasmnodev1.DriverFingerprintResponse // nil: none yet
	asked      time.Time                             // of last
	moved      chan struct{}                         // closed and replaced with each change of life
}

// newUnit returns a unit that is not brought up. It fails when the plugin's
// schemas are none.
func newUnit(m *DriverManager, c candidate) (*unit, error) {
	d := c.plugin.Description()
	u := &unit{
		m: m, plugin: c.plugin, name: d.GetName(), file: c.file, digest: c.digest,
		logger:   m.cfg.Logger.With("plugin", d.GetName(), "file", c.file),
		replaced: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1),
		refs: 1, held: true, life: newLife(time.Now()), moved: make(chan struct{}),
	}
	var err error
	if u.pluginSchema, err = schema.Compile(d.GetPluginConfigSchema()); err != nil {
		return nil, fmt.Errorf("describe: plugin_config_%w", err)
	}
	if u.taskSchema, err = schema.Compile(d.GetTaskConfigSchema()); err != nil {
		return nil, fmt.Errorf("describe: task_config_%w", err)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	answer := &wasmnodev1.DriverFingerprintResponse{}
	err := u.plugin.Call(ctx, Call{Op: abi.OpDriverFingerprint, Request: &wasmnodev1.DriverFingerprintRequest{}, Answer: answer})
	if err == nil && (answer.Health < wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED || answer.Health > wasmnodev1.HealthState_HEALTH_STATE_HEALTHY) {
		err = fmt.Errorf("the answer's health is %d, which is none", answer.Health)
	}
	if err != nil {
		return failure("fingerprint", err)
	}
	u.mu.Lock()
	u.last, u.asked = answer, time.Now()
	u.mu.Unlock()
	healthy := answer.Health == wasmnodev1.HealthState_HEALTH_STATE_HEALTHY
	return answered{healthy: healthy, text: describe(answer), next: time.Duration(answer.NextPollMs) * time.Millisecond}
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

// describe is the plugin's own line on its health.
func describe(answer *wasmnodev1.DriverFingerprintResponse) string {
	if text := printable(answer.Description); text != "" {
		return text
	}
	switch answer.Health {
	case wasmnodev1.HealthState_HEALTH_STATE_HEALTHY:
		return "Healthy"
	case wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED:
		return "undetected"
	}
	return "unhealthy"
}

// configure checks the operator's configuration and hands it over.
func (u *unit) configure(ctx context.Context) error {
	var given map[string]any
	if u.m.cfg.PluginConfig != nil {
		given = u.m.cfg.PluginConfig(u.name)
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
	u.m.changed(u)
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

// usable says why the driver cannot take tasks now, as an abi.Error.
func (u *unit) usable() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	why := fmt.Sprintf("driver %q is %s: %s", u.name, u.life.state, u.life.reason)
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

// info is the driver's state as the node shows it.
func (u *unit) info() *structs.DriverInfo {
	u.mu.Lock()
	defer u.mu.Unlock()
	info := &structs.DriverInfo{Attributes: map[string]string{}, UpdateTime: time.Now()}
	if u.last != nil {
		info.Detected = u.last.Health != wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED
		info.Attributes = u.attributes(u.last)
		info.HealthDescription = describe(u.last)
	}
	info.Healthy = u.life.state == StateHealthy
	if !info.Healthy && u.life.reason != "" {
		info.HealthDescription = u.life.reason
	}
	if info.Healthy && info.HealthDescription == "" {
		info.HealthDescription = "Healthy"
	}
	return info
}

// attributes are those of a fingerprint, as text. A driver speaks for itself only:
// names that are not below "driver.NAME" are left out.
func (u *unit) attributes(answer *wasmnodev1.DriverFingerprintResponse) map[string]string {
	own := "driver." + u.name
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(answer.Attributes)) {
		value := attributeText(answer.Attributes[name])
		switch {
		case name != own && !strings.HasPrefix(name, own+"."):
			u.logger.Debug("left out an attribute that is not the driver's own", "attribute", printable(name))
		case len(all) == maxAttributes || len(name) > maxAttributeNameBytes || len(value) > maxAttributeBytes:
			u.logger.Debug("left out an attribute beyond the limits", "attribute", printable(name))
		default:
			all[printable(name)] = printable(value)
		}
	}
	return all
}

func attributeText(a *wasmnodev1.Attribute) string {
	var text string
	switch v := a.GetValue().(type) {
	case *wasmnodev1.Attribute_StringValue:
		return v.StringValue
	case *wasmnodev1.Attribute_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *wasmnodev1.Attribute_IntValue:
		text = fmt.Sprint(v.IntValue)
	case *wasmnodev1.Attribute_FloatValue:
		text = fmt.Sprint(v.FloatValue)
	}
	return text + a.GetUnit()
}

// status implements member.
func (u *unit) status() (State, string, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.life.state, u.life.reason, u.life.since
}

// remove implements member.
func (u *unit) remove() {
	u.m.lost(u)
	u.apply(removed{})
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	u.m.dismiss(u)
}

// revive implements member.
func (u *unit) revive() { u.apply(revived{}) }

// closed implements member.
func (u *unit) closed() <-chan struct{} { return u.gone }

// replace takes the unit out of service because another version is in charge. The
// caller holds the manager's mu.
func (u *unit) replace() {
	if !isClosed(u.replaced) {
		close(u.replaced)
	}
	u.m.dismiss(u)
}

// leave gives up the manager's reference, once.
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
	u.m.forget(u)
	close(u.gone)
}
