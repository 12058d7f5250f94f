// Package catalogtest gives the tests of the managers fake plugins that are loaded from
// real files, and directories of them.
//
// It is for tests only.
package catalogtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// Recipe configures how a fake plugin behaves; it is the content of its file.
type Recipe struct {
	Name, Version string
	Type          host.Kind
	LoadError     string
	TaskSchema    string
	PluginSchema  string
	ConfigureErr  string
	Blocks        bool // loading goes on until it is cancelled
	Pad           int  // makes another content
}

// Module returns a Recipe as a file: a module that is whole and does nothing.
func (r Recipe) Module(t testing.TB) []byte {
	text, err := json.Marshal(r)
	require.NoError(t, err)
	payload := append([]byte("\x04fake"), text...)
	size := len(payload)
	b := []byte("\x00asm\x01\x00\x00\x00\x00")
	for size >= 0x80 {
		b = append(b, byte(size)|0x80)
		size >>= 7
	}
	return append(append(b, byte(size)), payload...)
}

// Loader makes fake plugins of recipes and knows all that are open.
type Loader struct {
	// Prepare, if set, completes a plugin before it is used.
	Prepare func(p *Plugin)

	mu   sync.Mutex
	open map[*Plugin]bool
	made []*Plugin
}

// MaxFileBytes implements [catalog.Loader].
func (l *Loader) MaxFileBytes() int64 { return 1 << 16 }

// Load implements [catalog.Loader].
func (l *Loader) Load(ctx context.Context, src host.Source, _ func() bool) (catalog.Plugin, error) {
	content := src.Bytes()
	at := bytes.Index(content, []byte("\x04fake"))
	if at < 0 {
		return nil, errors.New("scan: not a module")
	}
	p := NewPlugin()
	p.digest = src.Digest()
	if err := json.Unmarshal(content[at+5:], &p.Recipe); err != nil {
		return nil, err
	}
	if p.Recipe.LoadError != "" {
		return nil, errors.New(p.Recipe.LoadError)
	}
	if p.Recipe.Blocks {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Prepare != nil {
		l.Prepare(p)
	}
	if l.open == nil {
		l.open = map[*Plugin]bool{}
	}
	l.open[p] = true
	l.made = append(l.made, p)
	p.onClose = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.open[p] {
			panic("closed twice")
		}
		delete(l.open, p)
	}
	return p, nil
}

// OpenCount counts the plugins that are not closed.
func (l *Loader) OpenCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// MadeCount counts the plugins that were loaded.
func (l *Loader) MadeCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.made)
}

// Plugin answers calls with functions; without one it does not have the
// operation.
type Plugin struct {
	Capabilities *wasmnodev1.DriverCapabilities
	Recipe       Recipe
	Imports      []string    // modules beside those of all
	Grants       host.Grants // for the candidate that a test makes of it
	onClose      func()
	digest       string // of its file; empty: it has none

	mu      sync.Mutex
	closed  bool
	granted host.Grants // last
	Ops     map[string]func(ctx context.Context, c host.Call) error
	calls   map[string]int
}

// NewPlugin returns a driver that is healthy and starts tasks.
func NewPlugin() *Plugin {
	p := &Plugin{calls: map[string]int{}, onClose: func() {}}
	p.Ops = map[string]func(context.Context, host.Call) error{
		abi.OpDriverFingerprint: func(_ context.Context, c host.Call) error {
			a := c.Answer.(*wasmnodev1.DriverFingerprintResponse)
			a.Health, a.Description = wasmnodev1.HealthState_HEALTH_STATE_HEALTHY, "Healthy"
			return nil
		},
		abi.OpDriverStartTask: func(_ context.Context, c host.Call) error {
			c.Answer.(*wasmnodev1.DriverStartTaskResponse).Handle = &wasmnodev1.TaskHandle{Version: 1}
			return nil
		},
	}
	return p
}

// On has an operation answered by f from now on.
func (p *Plugin) On(op string, f func(ctx context.Context, c host.Call) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Ops[op] = f
}

// Count returns how often an operation was called.
func (p *Plugin) Count(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

// Spec implements [catalog.Plugin].
func (p *Plugin) Spec() *host.Spec {
	spec := &host.Spec{Kind: p.Recipe.Type, Capabilities: append([]string{abi.ModuleABI, abi.ModuleLog}, p.Imports...)}
	if spec.Kind == "" {
		spec.Kind = host.KindDriver
	}
	return spec
}

// Digest implements [catalog.Plugin].
func (p *Plugin) Digest() string {
	if p.digest != "" {
		return p.digest
	}
	return "d" + p.Recipe.Version
}

// Description implements [catalog.Plugin].
func (p *Plugin) Description() *wasmnodev1.DriverDescribeResponse {
	return &wasmnodev1.DriverDescribeResponse{
		Name: p.Recipe.Name, Version: p.Recipe.Version, Capabilities: p.Capabilities,
		TaskConfigSchema: p.Recipe.TaskSchema, PluginConfigSchema: p.Recipe.PluginSchema,
	}
}

// Stats implements [catalog.Plugin].
func (p *Plugin) Stats() host.Stats { return host.Stats{} }

// KeepSecrets implements [catalog.Plugin]: a fake tells nothing.
func (p *Plugin) KeepSecrets(string, []string) {}

// OpenNamespace opens what is there, as if all were granted.
func (p *Plugin) OpenNamespace(path string) (*os.File, error) { return os.Open(path) }

// Granted implements [catalog.Plugin].
func (p *Plugin) Granted() []string { return []string{abi.ModuleABI} }

// Has implements [catalog.Plugin].
func (p *Plugin) Has(op string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Ops[op] != nil
}

// Grant implements [catalog.Plugin].
func (p *Plugin) Grant(_ context.Context, g host.Grants) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted = g
}

// LastGranted is what was granted last.
func (p *Plugin) LastGranted() host.Grants {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted
}

// Configure implements [catalog.Plugin].
func (p *Plugin) Configure(_ context.Context, g host.Grants, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted = g
	p.calls[abi.OpDriverConfigure]++
	if p.Recipe.ConfigureErr != "" {
		return abi.NewError(abi.InvalidArgument, p.Recipe.ConfigureErr)
	}
	return nil
}

// Invoke implements [catalog.Plugin].
func (p *Plugin) Invoke(ctx context.Context, c host.Call) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		panic("called after close: " + c.Op)
	}
	f := p.Ops[c.Op]
	p.calls[c.Op]++
	p.mu.Unlock()
	return f(ctx, c)
}

// Close implements [catalog.Plugin].
func (p *Plugin) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.onClose()
}

// Trap is the fault of a guest that trapped in an operation.
func Trap(op string) error {
	return &host.FaultError{Plugin: "fake", Op: op, Kind: host.FaultTrap, Err: errors.New("unreachable")}
}

// Fault traps in an operation, for [Plugin.On].
func Fault(op string) func(context.Context, host.Call) error {
	return func(context.Context, host.Call) error { return Trap(op) }
}

// IsClosed reports whether Close has been called.
func (p *Plugin) IsClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}
