package catalog

import (
	"context"
	"os"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
)

// Loader makes a plugin of a file's content: scan, policy, compile, describe. Its
// methods may be called concurrently. [HostLoader] is the real one.
type Loader interface {
	// Load returns the plugin, described, with nothing granted yet. An error is a
	// rejection of this content; its text, one line, is what people see. While wanted reports
	// that somebody waits for the plugin, it comes before others.
	Load(ctx context.Context, src host.Source, wanted func() bool) (Plugin, error)
	// MaxFileBytes is the size of the largest file that is worth reading.
	MaxFileBytes() int64
}

// Plugin is one version of a loaded plugin; a [host.Plugin] is one. Its methods may be
// called concurrently, but none after Close.
type Plugin interface {
	// Spec is the file's description of itself.
	Spec() *host.Spec
	// Digest is the SHA-256 of the file, in hexadecimal.
	Digest() string
	// Description is what the plugin answered to describe; read-only. A device
	// plugin's has a name, a version and the schema of its configuration.
	Description() *wasmnodev1.DriverDescribeResponse
	// Granted names the host modules that the plugin may use, for people; read-only.
	Granted() []string
	// Stats is what the plugin did so far.
	Stats() host.Stats
	// Has reports whether the plugin exports an operation.
	Has(op string) bool
	// Grant replaces what was granted, at once. The plugin is not called.
	Grant(ctx context.Context, grants host.Grants)
	// Configure grants what the operator decided and hands over the configuration,
	// JSON that is valid under the plugin's schema. Every instance gets it.
	Configure(ctx context.Context, grants host.Grants, config []byte) error
	// Invoke calls an operation. The error is the plugin's answer (an abi.Error), a
	// [*host.FaultError], or ctx's when it was cancelled.
	Invoke(ctx context.Context, c host.Call) error
	// KeepSecrets has the values of these variables of a task's environment be secrets in all that is
	// told of calls about it, whatever they are called; with none, nothing is known of the task any more.
	KeepSecrets(taskID string, variables []string)
	// OpenNamespace opens a network namespace that the plugin has named, if that is granted.
	OpenNamespace(path string) (*os.File, error)
	// Close frees the plugin. It waits for the calls that run.
	Close()
}

// HostLoader loads plugins with package host.
type HostLoader struct{ Host *host.Host }

// MaxFileBytes implements [Loader].
func (l HostLoader) MaxFileBytes() int64 { return int64(l.Host.Limits().FileBytes) }

// Load implements [Loader].
func (l HostLoader) Load(ctx context.Context, src host.Source, wanted func() bool) (Plugin, error) {
	p, err := l.Host.LoadWanted(ctx, src, wanted)
	if err != nil {
		return nil, err // a nil *host.Plugin is not a nil Plugin
	}
	return p, nil
}
