package sandbox

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
)

// Module is compiled code that can be instantiated, in a runtime of its own: memory
// limits and host modules are a runtime's. It is safe for concurrent use.
type Module struct {
	engine   *Engine
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	limit    uint64 // of an instance's memory, in bytes
	digest   string // of what was given to Compile
	code     string // of what was compiled
	kept     bool   // its code is on the disk
	// template is what snapshots need; nil: none can be taken, for the reason noTemplate,
	// or because it was not asked for.
	template   *template
	noTemplate error
	lines      *sourceLines // nil: there are none
	closed     atomic.Bool
}

// Digest returns the digest of the file that was given to [Engine.Compile].
func (m *Module) Digest() string { return m.digest }

// Kept reports whether its code is in the engine's cache directory, for the next start.
func (m *Module) Kept() bool { return m.kept }

// Close closes the module and all its instances. No call may be under way. Closing
// twice is not an error.
func (m *Module) Close(ctx context.Context) error {
	if m.closed.Swap(true) {
		return nil
	}
	err := m.runtime.Close(ctx)
	if m.template != nil {
		m.template.start.close()
	}
	if m.compiled != nil {
		err = errors.Join(err, m.compiled.Close(ctx))
	}
	return errors.Join(err, m.engine.release(ctx, m.code))
}
