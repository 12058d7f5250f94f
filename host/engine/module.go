package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Digest names a module by its content: lower-case hexadecimal SHA-256.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// Module is compiled code that can be instantiated, in a runtime of its own: memory
// limits and host modules are a runtime's. It is safe for concurrent use.
type Module struct {
	engine   *Engine
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	digest   string // of what was given to Compile
	code     string // of what was compiled
	closed   sync.Once
}

// Digest returns the digest of the bytes that were given to [Engine.Compile].
func (m *Module) Digest() string { return m.digest }

// Instantiate makes an instance and runs its start functions. Ending ctx ends them.
// An instance serves one goroutine at a time.
//
// # Errors
//
// What the start functions ended with ([ExitCode], [Interrupted], else a trap), a
// [PanicError], or what does not link.
func (m *Module) Instantiate(ctx context.Context, cfg wazero.ModuleConfig) (mod api.Module, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer recovered(&err)
	return m.runtime.InstantiateModule(m.engine.guard.enter(ctx), m.compiled, cfg)
}

// Call calls a function of an instance of this module and leaves what it returns in
// stack, which holds the arguments and has room for the results. Ending ctx ends the
// call; the instance is not to be used again after any error.
//
// # Errors
//
// As those of [Module.Instantiate].
func (m *Module) Call(ctx context.Context, f api.Function, stack []uint64) (err error) {
	defer recovered(&err)
	return f.CallWithStack(m.engine.guard.enter(ctx), stack)
}

// Close closes the module and all its instances. No call may be under way. Closing
// twice is no error.
func (m *Module) Close(ctx context.Context) (err error) {
	m.closed.Do(func() {
		err = m.runtime.Close(ctx)
		if m.compiled != nil {
			err = errors.Join(err, m.compiled.Close(ctx))
		}
		err = errors.Join(err, m.engine.release(ctx, m.code))
	})
	return err
}
