package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// withoutSSE41 is a processor, as qemu knows it, for which plugins cannot be compiled. What virtual
// machines have by default is often no newer.
const withoutSSE41 = "Conroe-v1"

// TestAProcessorLacksInstructions has the binary that is published run on one: the agent starts and
// answers, takes no plugin and says why, and so does doctor.
func TestAProcessorLacksInstructions(t *testing.T) {
	archive, dir := one(t, "wasmnode_*_linux_amd64.tar.gz"), t.TempDir()
	need(t, "qemu-x86_64-static", "qemu-user-static")
	output(t, "tar", "-C", dir, "--strip-components=1", "-xzf", archive)
	binary, plugins := filepath.Join(dir, "usr/bin/wasmnode"), filepath.Join(dir, "usr/share/wasmnode/plugins")
	address := "unix://" + filepath.Join(dir, "s")
	var said transcript
	agent := exec.Command("qemu-x86_64-static", "-cpu", withoutSSE41, binary, "agent", "-data-dir", filepath.Join(dir, "data"), "-plugin-dir", plugins, "-http-addr", address)
	agent.Stdout, agent.Stderr = &said, &said
	require.NoError(t, agent.Start())
	ended := make(chan struct{})
	go func() {
		_ = agent.Wait() // by a signal
		close(ended)
	}()
	defer func() {
		_ = agent.Process.Signal(syscall.SIGTERM)
		<-ended
	}()
	ask := func(args ...string) string {
		cmd := exec.Command("qemu-x86_64-static", append([]string{"-cpu", withoutSSE41, binary}, args...)...)
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+address)
		out, _ := cmd.CombinedOutput() // doctor ends with 1
		return strings.Join(strings.Fields(string(out)), " ")
	}
	require.Eventually(t, func() bool {
		return strings.Contains(ask("plugin", "status"), "wasi.wasm: compile: the processor has no SSE4.1, which compiled WebAssembly needs")
	}, time.Minute, 100*time.Millisecond, "%s", &said)
	require.Contains(t, ask("node", "status", "-self"), "Status = ready")
	told := ask("doctor", "-data-dir", filepath.Join(dir, "data"))
	require.Contains(t, told, "failed machine platform linux/amd64: the processor has no SSE4.1, which compiled WebAssembly needs: the API answers, and no plugin is loaded")
	require.Contains(t, told, "ok node agent it answers at "+address)
}
