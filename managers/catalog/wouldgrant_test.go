package catalog

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
)

// TestOnlyTheNodeSaysWhatWouldBeGranted has plugins that write a reason as the node would, and one that
// is not granted what it needs.
func TestOnlyTheNodeSaysWhatWouldBeGranted(t *testing.T) {
	missing := &host.MissingGrantError{Plugin: "a", Capability: "wasmnode:kv/v1", Fix: `plugin "a" { grant { kv { enabled = true } } }`}
	v := newSupervision(time.Now())
	for _, c := range []struct {
		name string
		is   event
		want string
	}{
		{"its description", answered{Answer{Text: missing.Error()}}, ""},
		{"needed", failure("configure", missing), missing.Fix},
		{"its error", failure("configure", errors.New(missing.Error())), ""},
		{"needed again", failure("configure", missing), missing.Fix},
		{"healthy", answered{Answer{Healthy: true}}, ""},
	} {
		v, _ = v.step(time.Now(), c.is)
		require.Equal(t, c.want, v.WouldGrant, c.name)
	}
}
