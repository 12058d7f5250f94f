package catalog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// TestAKeyThatIsTrustedNoMoreEndsGrantsAtOnce looks before the file is read again, and when another key
// is found to have signed it.
func TestAKeyThatIsTrustedNoMoreEndsGrantsAtOnce(t *testing.T) {
	first, second := pluginsign.PublicKey{ID: "first"}, pluginsign.PublicKey{ID: "second"}
	own, others := host.Grants{KV: host.KVGrant{Enabled: true}}, host.Grants{Wasm: host.WasmGrant{Denied: true}}
	trusting := func(key pluginsign.PublicKey) Settings {
		return Settings{TrustedKeys: pluginsign.Keys{key}, Plugins: map[string]PluginSettings{"a": {Grants: own}}, Others: others}
	}
	c := &Catalog{files: newFiles(trusting(first))}
	now, u := time.Now(), &Unit{}
	f := c.files.file(now, "a.wasm")
	f.unit, f.content, f.state = u, identity{kind: host.KindDriver, name: "a", digest: "d", signer: first}, ""
	grants := func(actions []action) (all []host.Grants) {
		for _, a := range actions {
			if s, is := a.(settle); is {
				all = append(all, s.what.grants)
			}
		}
		return all
	}
	require.Equal(t, []host.Grants{own}, grants(c.files.apply(now, trusting(first))))
	require.Equal(t, []host.Grants{others}, grants(c.files.apply(now, trusting(second))))
	got, again := c.files.isInCharge(f, f.load, "d", second)
	require.Same(t, u, got)
	require.Equal(t, []host.Grants{own}, grants(again))
}
