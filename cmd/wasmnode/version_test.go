package main

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
)

func TestTheVersionIsToldInThreeForms(t *testing.T) {
	code, out, _ := offline("version")
	require.Zero(t, code)
	require.Equal(t, "wasmnode "+agent.Version+"\n", out)

	code, out, _ = offline("version", "-json")
	require.Zero(t, code)
	var b agent.Build
	require.NoError(t, json.Unmarshal([]byte(out), &b))
	require.Equal(t, agent.ThisBuild(), b)
	require.Equal(t, runtime.Version(), b.Go)
	require.Regexp(t, `^v1\.`, b.Wazero)
	require.Equal(t, "v1", b.ABI)
	require.Positive(t, b.ClientSchema)
	require.Positive(t, b.ServerSchema)

	code, out, _ = offline("version", "-v")
	require.Zero(t, code)
	for _, part := range []string{b.Version, b.Go, b.Platform, b.Wazero, b.ABI, "Client schema", "Server schema", "Commit"} {
		require.Contains(t, out, part)
	}

	code, _, errs := offline("version", "-v", "all")
	require.Equal(t, 1, code)
	require.Contains(t, errs, `version takes no arguments, not "all"`)
	code, _, errs = offline("version", "-x")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "-x")
}
