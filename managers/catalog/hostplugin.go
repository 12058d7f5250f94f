package catalog

import (
	"context"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
)

// HostLoader loads plugins with package host.
type HostLoader struct {
	Host *host.Host
	// MaxBytes is the host's limit for a file; 0: its default.
	MaxBytes int64
	// Grants returns what the operator grants the plugin of that name. Nil: what
	// every plugin has.
	Grants func(name string) host.Grants
	// Pinned refuses a content that the operator did not mean, by the plugin's name
	// and the content's SHA-256 in hexadecimal. Nil: every content is taken.
	Pinned func(name, digest string) error
}

// MaxFileBytes implements [Loader].
func (l HostLoader) MaxFileBytes() int64 {
	if l.MaxBytes > 0 {
		return l.MaxBytes
	}
	return int64(host.DefaultLimits().FileBytes)
}

// Load implements [Loader].
func (l HostLoader) Load(ctx context.Context, content []byte) (Plugin, error) {
	p, err := l.Host.Load(ctx, host.NewSource(content))
	if err != nil {
		return nil, err
	}
	if l.Pinned != nil {
		if err := l.Pinned(p.Name(), p.Digest()); err != nil {
			p.Release() //nolint:contextcheck // a plugin is closed whatever becomes of its loading
			return nil, err
		}
	}
	var grants host.Grants
	if l.Grants != nil {
		grants = l.Grants(p.Name())
	}
	return &hostPlugin{p, grants}, nil
}

// hostPlugin is a host.Plugin with its grants.
type hostPlugin struct {
	plugin *host.Plugin
	grants host.Grants
}

func (p *hostPlugin) Type() PluginType { return PluginType(p.plugin.Spec().Kind) }

func (p *hostPlugin) Description() *wasmnodev1.DriverDescribeResponse { return p.plugin.Description() }

func (p *hostPlugin) CapabilitiesImported() []string { return p.plugin.Spec().Capabilities }

func (p *hostPlugin) CapabilitiesGranted() []string { return p.plugin.Granted() }

func (p *hostPlugin) Stats() host.Stats { return p.plugin.Stats() }

func (p *hostPlugin) Grants() host.Grants { return p.grants }

func (p *hostPlugin) Has(op string) bool { return p.plugin.Has(op) }

func (p *hostPlugin) Configure(ctx context.Context, config []byte) error {
	return p.plugin.Configure(ctx, p.grants, config)
}

func (p *hostPlugin) Call(ctx context.Context, c Call) error {
	var scope *host.TaskScope
	if c.Task != nil {
		scope = &host.TaskScope{Config: c.Task}
	}
	if c.Events != nil {
		ctx = host.WithEvents(ctx, c.Events)
	}
	return host.Invoke(ctx, p.plugin, c.Op, c.Request, c.Answer, scope)
}

func (p *hostPlugin) Close() { p.plugin.Release() }
