package engine

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// features are those that the scan lets pass: WebAssembly 2.0 and what current
// compilers emit beyond it.
const features = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst |
	experimental.CoreFeaturesExceptionHandling

// guard makes guests interruptible. It is the one place that decides how.
type guard interface {
	// rewrite changes a module before it is compiled.
	rewrite(wasm []byte) ([]byte, error)
	// configure changes the runtime that the module is compiled in.
	configure(c wazero.RuntimeConfig) wazero.RuntimeConfig
	// link adds what rewritten modules import.
	link(ctx context.Context, r wazero.Runtime) error
	// enter returns the context with which a guest is entered.
	enter(ctx context.Context) context.Context
}

// closeOnDone has wazero look at the context in every loop and at every call. It is
// slow, and blind to call trees without loops.
type closeOnDone struct{}

func (closeOnDone) rewrite(wasm []byte) ([]byte, error) { return wasm, nil }

func (closeOnDone) configure(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.WithCloseOnContextDone(true)
}

func (closeOnDone) link(context.Context, wazero.Runtime) error { return nil }

func (closeOnDone) enter(ctx context.Context) context.Context { return ctx }
