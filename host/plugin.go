package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-version"
	"golang.org/x/time/rate"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/internal/secrets"
	"github.com/wasmnode/wasmnode/sandbox"
)

// Plugin is a loaded plugin. It is safe for concurrent use. Its loader closes it,
// and counts those who use it.
type Plugin struct {
	host     *Host
	spec     *Spec
	module   *sandbox.Module
	pool     *pool
	budget   *sandbox.Budget
	logger   hclog.Logger
	logs     *limiter
	logBytes *rate.Limiter
	events   *limiter
	faults   *limiter // of what is logged of them
	counters counters
	running  runningCalls
	streams  *stream.Owner
	helpers  helperBounds
	uses     uses

	description *wasmnodev1.DriverDescribeResponse
	secretNames func() []string // that its schemas declare
	maskers     maskers
	watched     *watched // nil: it has no name yet

	configuring chan struct{} // the semaphore of Configure: one at a time

	closed atomic.Bool
}

// settings are what an operator decided about a plugin.
type settings struct {
	grants Grants
	config []byte // JSON
	http   *outbound.Client
}

func newSettings(grants Grants, config []byte) *settings {
	return &settings{grants: grants, config: config, http: outbound.NewClient()}
}

// configuration is the plugin's; nil: it has none yet.
func (s *settings) configuration() []byte {
	if s == nil {
		return nil
	}
	return s.config
}

// files are the directories that the plugin is granted.
func (s *settings) files() FSGrant {
	if s == nil {
		return FSGrant{}
	}
	return s.grants.FS
}

// faultBurst is how many faults are told of in the log at once; afterwards one a second is.
const faultBurst = 20

// logBurst is for how many seconds' bytes of log a plugin may save up: a crash is told at
// length.
const logBurst = 8

func newPlugin(h *Host, spec *Spec) *Plugin {
	limits := h.cfg.Limits
	p := &Plugin{
		host:        h,
		spec:        spec,
		budget:      sandbox.NewBudget(sandbox.Quota{Memory: limits.PluginMemoryBytes, Least: leastPluginMemory, TimePerMinute: limits.CPUPerMinute}, h.budget),
		logger:      h.cfg.Logger,
		logs:        newLimiter(rate.Limit(limits.LogsPerSecond), 2*limits.LogsPerSecond),
		logBytes:    rate.NewLimiter(rate.Limit(limits.LogBytesPerSec), logBurst*limits.LogBytesPerSec),
		events:      newLimiter(rate.Limit(limits.EventsPerSec), 2*limits.EventsPerSec),
		faults:      newLimiter(1, faultBurst),
		helpers:     newHelperBounds(),
		uses:        newUses(),
		configuring: make(chan struct{}, 1),
	}
	p.pool = newPool(p, limits)
	p.streams = stream.NewOwner(p.budget)
	return p
}

// Name is the name that the plugin gave itself.
func (p *Plugin) Name() string { return p.description.Name }

// Version is the plugin's own version.
func (p *Plugin) Version() string { return p.description.Version }

// Spec is the file's description of itself.
func (p *Plugin) Spec() *Spec { return p.spec }

// Digest identifies the exact file.
func (p *Plugin) Digest() string { return p.spec.Digest }

// Description is the plugin's answer to describe; read-only. A device plugin's has a
// name, a version, the schema of its configuration, and the capabilities that it does without.
func (p *Plugin) Description() *wasmnodev1.DriverDescribeResponse { return p.description }

// Has reports whether the plugin exports an operation. One that it exports and
// answers with UNIMPLEMENTED counts as not exported.
func (p *Plugin) Has(op string) bool { return slices.Contains(p.spec.Operations, op) }

// describe asks the plugin who it is, before anything is granted to it.
func (p *Plugin) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.host.cfg.Limits.DescribeTime, errTooSlow)
	defer cancel()
	p.description = &wasmnodev1.DriverDescribeResponse{} // it has no name yet
	p.secretNames = func() []string { return nil }
	answer, err := p.askDescription(ctx)
	if err != nil {
		return err
	}
	// What was instantiated without grants must not serve with them.
	p.pool.renew(ctx, func(*settings) *settings { return nil })
	if err := checkDescription(answer); err != nil {
		return err
	}
	if err := p.spec.Metadata.agrees(answer.Name, answer.Version); err != nil {
		return err
	}
	p.description = answer
	p.secretNames = sync.OnceValue(func() []string { return secrets.Declared(answer.PluginConfigSchema, answer.TaskConfigSchema) })
	p.maskers.reset()
	p.logger, p.watched = p.logger.Named(answer.Name), p.host.watch(answer.Name)
	return nil
}

func checkDescription(d *wasmnodev1.DriverDescribeResponse) error {
	if !abi.ValidName(d.Name) {
		return fmt.Errorf("its name is \"%s\", but has to be a letter, then letters, digits, '_' or '-', at most 64 in all", plaintext.Line(d.Name, 80))
	}
	if _, err := version.NewSemver(d.Version); err != nil {
		return fmt.Errorf("plugin %s: version \"%s\" is not a semantic version", d.Name, plaintext.Line(d.Version, 80))
	}
	for field, schema := range map[string]string{"plugin_config_schema": d.PluginConfigSchema, "task_config_schema": d.TaskConfigSchema} {
		if schema != "" && !json.Valid([]byte(schema)) {
			return fmt.Errorf("plugin %s: %s is not JSON", d.Name, field)
		}
	}
	if d.Capabilities == nil {
		d.Capabilities = &wasmnodev1.DriverCapabilities{}
	}
	return nil
}

// Grant replaces what the plugin is granted, once it has been configured. What it asks for
// from now on is decided by that, also in calls that go on; only directories of its own stay
// what they were until the call has ended. The plugin is not called. Nothing changes when ctx
// has ended.
func (p *Plugin) Grant(ctx context.Context, grants Grants) {
	p.pool.renew(ctx, func(now *settings) *settings {
		if now == nil || ctx.Err() != nil {
			return now
		}
		return newSettings(grants.clone(), now.config)
	})
	p.counters.granted()
}

// Configure grants the plugin what the operator decided and hands it its
// configuration, JSON that is valid under its schema. It may be called again: calls
// that begin after it returned get the new settings. When it fails the configuration in
// force stays so, but not what was granted before: see [Plugin.Grant].
//
// # Errors
//
// A [MissingGrantError] when the plugin imports what is not granted, and does not say that it does
// without; the plugin's
// own error when it refuses the configuration.
func (p *Plugin) Configure(ctx context.Context, grants Grants, config []byte) error {
	if err := grants.Validate(); err != nil {
		return fmt.Errorf("plugin %q: %w", p.Name(), err)
	}
	if err := p.missingGrant(grants); err != nil {
		p.Grant(ctx, grants)
		return err
	}
	select {
	case p.configuring <- struct{}{}:
		defer func() { <-p.configuring }()
	case <-ctx.Done():
		return fmt.Errorf("plugin %q: waiting for another configuration to end: %w", p.Name(), context.Cause(ctx))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("plugin %q: %w", p.Name(), context.Cause(ctx))
	}
	before := p.pool.renew(ctx, func(now *settings) *settings {
		if ctx.Err() != nil { // what is granted now is granted since
			return now
		}
		return newSettings(grants.clone(), slices.Clone(config))
	})
	p.counters.granted()
	// A new instance is configured before anything else; this one shows whether
	// the plugin takes the configuration.
	if err := p.pool.prepare(ctx); err != nil {
		p.pool.renew(ctx, func(now *settings) *settings {
			if before == nil {
				return nil
			}
			return newSettings(now.grants, before.config)
		})
		return err
	}
	return nil
}

// Close ends the calls in progress, waits for them to return, and frees the plugin.
// Closing twice is not an error; calls after it fail.
func (p *Plugin) Close() {
	if p.closed.Swap(true) {
		return
	}
	if p.watched != nil {
		p.host.unwatch(p.watched)
	}
	ctx := context.Background()
	p.pool.close(ctx)
	if err := p.module.Close(ctx); err != nil {
		p.logger.Warn("closing the plugin failed", "error", err)
	}
}
