package alloc_test

import (
	"context"

	"github.com/wasmnode/wasmnode/runners/allocdir"
)

// failingWatcher cannot tell.
type failingWatcher struct{ err error }

func (w failingWatcher) Wait(context.Context, func(string)) error { return w.err }
func (w failingWatcher) Migrate(context.Context, *allocdir.Dir, []string) (string, error) {
	return "", nil
}
func (failingWatcher) Waiting() string { return "" }
