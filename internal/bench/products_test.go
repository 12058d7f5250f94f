package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// nomadEnv names the binary of Nomad to compare with.
const nomadEnv = "NOMAD_BIN"

// ours is a node with the driver raw_exec, which may run sleep and nothing else.
var ours = product{
	name: "wasmnode", driver: "raw_exec",
	binary: func(b *testing.B) string {
		file := filepath.Join(b.TempDir(), "out")
		build := exec.Command("go", "build", "-C", "../..", "-trimpath", "-ldflags=-s -w", "-o", file, "./cmd/wasmnode")
		build.Env = append(os.Environ(), "GOWORK=") // this module is in no workspace, the product's is
		out, err := build.CombinedOutput()
		require.NoError(b, err, string(out))
		return file
	},
	install: func(b *testing.B, a *agent, address string) []string {
		plugins := filepath.Join(a.dir, "plugins")
		require.NoError(b, os.Mkdir(plugins, 0o700))
		wasm := guestbuild.Plugin(b, "../../guest-examples/drivers/raw_exec")
		require.NoError(b, os.WriteFile(filepath.Join(plugins, "raw_exec.wasm"), wasm, 0o600))
		return configured(b, a, fmt.Sprintf(`
data_dir   = %q
plugin_dir = %q
ports { http = %s }
plugin "raw_exec" { grant { process { commands = [%q] } } }
`, filepath.Join(a.dir, "data"), plugins, port(b, address), a.sleep))
	},
}

// nomads is a server and a client in one agent, as someone with a single machine has.
// It asks no cloud where it is, which takes it seconds.
var nomads = product{
	name: "nomad", driver: "raw_exec",
	binary: func(*testing.B) string { return os.Getenv(nomadEnv) },
	install: func(b *testing.B, a *agent, address string) []string {
		return configured(b, a, nomadsConfig(b, a, address)+`
plugin "raw_exec" {
  config { enabled = true }
}
`)
	},
}

func nomadsConfig(b *testing.B, a *agent, address string) string {
	b.Helper()
	return fmt.Sprintf(`
data_dir  = %q
bind_addr = "127.0.0.1"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %s
  rpc  = %s
  serf = %s
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled = true
  options { "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce" }
}
`, filepath.Join(a.dir, "data"), port(b, address), port(b, freeAddress(b)), port(b, freeAddress(b)))
}

// configured writes an agent's configuration and returns the arguments to start it with.
func configured(b *testing.B, a *agent, text string) []string {
	b.Helper()
	file := filepath.Join(a.dir, "node.hcl")
	require.NoError(b, os.WriteFile(file, []byte(text), 0o600))
	return []string{"agent", "-config=" + file}
}

// sideBySide measures Nomad, if there is a binary of it, and then us. What ours is
// given of Nomad's measures is nil without one. The files of both stay until the end: a
// file system may be slow for half a minute after much was removed from it.
func sideBySide[M any](b *testing.B, measure func(b *testing.B, p product) *M, compare func(b *testing.B, nomad, own *M)) {
	b.Helper()
	productsSideBySide(b, nomads, ours, measure, compare)
}

// productsSideBySide is sideBySide for products with other drivers.
func productsSideBySide[M any](
	b *testing.B, nomads, ours product, measure func(b *testing.B, p product) *M, compare func(b *testing.B, nomad, own *M),
) {
	b.Helper()
	dir := b.TempDir()
	allocdirtest.Unmount(b, dir)
	var nomad *M
	if os.Getenv(nomadEnv) != "" {
		b.Run(nomads.name, func(b *testing.B) { nomad = measure(b, nomads.below(dir)) })
	}
	b.Run(ours.name, func(b *testing.B) {
		own := measure(b, ours.below(dir))
		if nomad != nil {
			compare(b, nomad, own)
		}
	})
}
