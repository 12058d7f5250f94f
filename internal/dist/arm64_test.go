package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// foreign are the packages, below the repository, whose quick tests another processor runs. Not
// those of sandbox, sandbox/meter and host: they compile many modules, each in a process of its own,
// which takes many minutes when each is emulated; [TestPluginsOnArm64] is what there is of these. Nor
// those of what starts tasks: it asks the kernel for what qemu does not pass on.
var foreign = []string{"abi", "jobspec", "sandbox/scan", "sdk/go/config", "sdk/go/driver", "sdk/go/taskenv", "state"}

// emulates has the kernel run programs for arm64 by qemu, for one process and those that it starts:
// the agent starts itself to compile. Nothing of it is the machine's.
const emulates = `mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf %s ':arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$0"':FP' > /proc/sys/fs/binfmt_misc/register
exec "$@"`

// emulated returns what a program for arm64 prints that has to end well.
func emulated(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	need(t, "qemu-aarch64-static", "qemu-user-static")
	qemu, err := exec.LookPath("qemu-aarch64-static")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"-Urm", "sh", "-ec", emulates, qemu, program}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", program, args, out)
	return string(out)
}

// TestPackagesOnArm64 runs the quick tests of packages.
func TestPackagesOnArm64(t *testing.T) {
	published(t)
	need(t, "qemu-aarch64-static", "qemu-user-static")
	for _, name := range foreign {
		t.Run(name, func(t *testing.T) {
			dir, binary := filepath.Join("..", "..", filepath.FromSlash(name)), filepath.Join(t.TempDir(), "test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-o", binary, ".")
			build.Dir = dir
			build.Env = append(os.Environ(), "GOWORK=", "GOARCH=arm64", "CGO_ENABLED=0")
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
			emulated(t, dir, binary, "-test.short")
		})
	}
}

// TestPluginsOnArm64 compiles and calls each plugin with the binary that is published.
func TestPluginsOnArm64(t *testing.T) {
	archive, dir := one(t, "wasmnode_*_linux_arm64.tar.gz"), t.TempDir()
	output(t, "tar", "-C", dir, "--strip-components=1", "-xzf", archive)
	binary := filepath.Join(dir, "usr/bin/wasmnode")
	require.Contains(t, emulated(t, dir, binary, "version", "-v"), "linux/arm64")
	const isolated = "process {\n  commands  = [\"*\"]\n  users     = [\"nobody\"]\n  isolation = \"full\"\n}"
	grants := map[string][]string{
		"docker": {`http { endpoint "unix:/nonexistent.sock" { paths = ["/"] } }`, `kv { enabled = true }`},
		"exec":   {isolated}, "java": {isolated}, "gpu": nil, "usb": nil,
		"qemu": {`process { commands = ["*"] }`}, "raw_exec": {`process { commands = ["*"] }`},
		"wasi": {`wasm { directories = ["/usr/share"] }`},
	}
	for name := range plugins {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, grants, name)
			args := []string{"plugin", "conform"}
			for _, grant := range grants[name] {
				args = append(args, "-grant", grant)
			}
			require.Contains(t, emulated(t, dir, binary, append(args, "usr/share/wasmnode/plugins/"+name+".wasm")...), " 0 failed")
		})
	}
}
