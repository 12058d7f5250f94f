package host_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

func small(testing.TB) []byte {
	return guest(nil, map[string][]byte{abi.OpDriverFingerprint: echo()}).Bytes()
}

func goPlugin(t testing.TB) []byte { return guestbuild.Plugin(t, "guest-examples/drivers/wasi") }

var guests = []struct {
	name string
	wasm func(testing.TB) []byte
}{{"small", small}, {"Go", goPlugin}}

func hostOn(b *testing.B, dir string) *host.Host {
	b.Helper()
	e, err := sandbox.Open(sandbox.Config{CacheDir: dir})
	require.NoError(b, err)
	s := wasi.New(wasi.Config{Logger: hclog.NewNullLogger(), Engine: e})
	b.Cleanup(func() {
		require.NoError(b, s.Close())
		require.NoError(b, e.Close(context.Background()))
	})
	return host.New(host.Config{Logger: hclog.NewNullLogger(), Engine: e, Workloads: s})
}

// Load is everything from the file's bytes to the plugin's description.
func BenchmarkLoad(b *testing.B) {
	for _, g := range guests {
		b.Run(g.name+"/cold", func(b *testing.B) {
			wasm := g.wasm(b)
			for b.Loop() {
				p, err := hostOn(b, filepath.Join(b.TempDir(), "cache")).Load(b.Context(), host.NewSource(wasm))
				require.NoError(b, err)
				p.Close()
			}
		})
		b.Run(g.name+"/cached", func(b *testing.B) {
			wasm, dir := g.wasm(b), filepath.Join(b.TempDir(), "cache")
			p, err := hostOn(b, dir).Load(b.Context(), host.NewSource(wasm))
			require.NoError(b, err)
			p.Close()
			h := hostOn(b, dir)
			for b.Loop() {
				p, err := h.Load(b.Context(), host.NewSource(wasm))
				require.NoError(b, err)
				p.Close()
			}
		})
	}
}

func BenchmarkInspect(b *testing.B) {
	wasm := goPlugin(b)
	b.SetBytes(int64(len(wasm)))
	for b.Loop() {
		_, err := host.Inspect(wasm, 64<<20)
		require.NoError(b, err)
	}
}

// BenchmarkConfigure makes the first instance of a plugin's new settings: it begins,
// is copied for those that come after it, and is configured.
func BenchmarkConfigure(b *testing.B) {
	for _, g := range guests {
		b.Run(g.name, func(b *testing.B) {
			p, err := hostOn(b, "").Load(b.Context(), host.NewSource(g.wasm(b)))
			require.NoError(b, err)
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, p.Configure(b.Context(), host.Grants{}, []byte("{}")))
			}
		})
	}
}

func BenchmarkCall(b *testing.B) {
	call := func(b *testing.B, wasm []byte, op string, in []byte) {
		p, err := hostOn(b, "").Load(b.Context(), host.NewSource(wasm))
		require.NoError(b, err)
		defer p.Close()
		require.NoError(b, p.Configure(b.Context(), host.Grants{}, []byte("{}")))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Call(b.Context(), op, in, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("small/empty", func(b *testing.B) { call(b, small(b), abi.OpDriverFingerprint, nil) })
	b.Run("small/1KiB", func(b *testing.B) { call(b, small(b), abi.OpDriverFingerprint, make([]byte, 1<<10)) })
	b.Run("Go/fingerprint", func(b *testing.B) { call(b, goPlugin(b), abi.OpDriverFingerprint, nil) })
	b.Run("Go/configure1KiB", func(b *testing.B) {
		call(b, goPlugin(b), abi.OpDriverConfigure, mustMarshal(&wasmnodev1.DriverConfigureRequest{Config: make([]byte, 1<<10)}))
	})
}
