package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatIsGrantedWithBoundsIsNotMissing(t *testing.T) {
	p := pluginStatus{
		CapabilitiesImported: []string{"wasi_snapshot_preview1", "wasmnode:abi/v1", "wasmnode:wasm/v1", "wasmnode:kv/v1"},
		CapabilitiesGranted:  []string{"wasi_snapshot_preview1(ro:/etc (of the machine))", "wasmnode:abi/v1", "wasmnode:wasm/v1(dirs:/usr/share)"},
	}
	require.Equal(t, []string{"wasmnode:kv/v1"}, p.Missing())
	p.Stats.GuestTime = 22_344_374
	require.Equal(t, "22.3ms", p.InOwnCode().String())
	require.Equal(t, time.Duration(0), pluginStatus{}.InOwnCode())
}

func TestWhyTheNodeWasNotFitIsASentence(t *testing.T) {
	for constraint, want := range map[string]string{
		"missing drivers": "The node has no such driver that is healthy.",
		`driver "wasi" may yet come: plugins are still loading: wasi.wasm`: `The driver "wasi" may yet come: plugins are still loading: wasi.wasm`,
		"${attr.cpu.arch} = arm64": "The node does not have: ${attr.cpu.arch} = arm64",
	} {
		require.Equal(t, want, unmet(constraint))
	}
}
