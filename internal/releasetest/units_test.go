package releasetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/enginetest"
)

// packaging has the files of packages that are written by hand.
const packaging = root + "/internal/dist/packaging"

func packaged(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(packaging, name))
	require.NoError(t, err)
	return string(text)
}

// unit writes a unit of the packages as a package would be that has this test as its binary, with
// what is put beside it, and returns where it is.
func unit(t *testing.T, name, dropIn string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name)
	text := packaged(t, name)
	require.Contains(t, text, "/usr/bin/wasmnode")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "/usr/bin/wasmnode", self)), 0o600))
	if dropIn != "" {
		require.NoError(t, os.Mkdir(path+".d", 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path+".d", dropIn), []byte(packaged(t, dropIn)), 0o600))
	}
	return path
}

// TestTheUnitIsUnderstood also bounds what a service that goes astray could do, in tenths: what is
// open has its reason in the unit, and hardened.conf closes it.
func TestTheUnitIsUnderstood(t *testing.T) {
	enginetest.Program(t, "systemd-analyze", "systemd")
	for _, u := range []struct{ name, dropIn, exposure string }{
		{"wasmnode.service", "", "85"}, {"wasmnode.service", "hardened.conf", "30"}, {"wasmnode-compile.service", "", "20"},
	} {
		t.Run(u.name+" "+u.dropIn, func(t *testing.T) {
			path := unit(t, u.name, u.dropIn)
			verify := exec.Command("systemd-analyze", "verify", "--man=no", path)
			verify.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
			out, err := verify.CombinedOutput()
			require.NoError(t, err, string(out))
			require.NotContains(t, string(out), filepath.Base(path), "it has something to say about it")
			out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold="+u.exposure, path).CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

// TestTheUnitLeavesTasksAlone holds the unit to what tasks that outlive the agent need.
func TestTheUnitLeavesTasksAlone(t *testing.T) {
	text := packaged(t, "wasmnode.service")
	for _, line := range []string{"Type=notify", "NotifyAccess=main", "KillMode=process", "ExecReload=/bin/kill -HUP $MAINPID", "WatchdogSec=1min", "Delegate=yes"} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	// Each gives the agent mounts of its own, in which the next one would not find networks.
	for _, setting := range []string{"ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectKernelTunables", "ProtectKernelModules",
		"ProtectKernelLogs", "ProtectControlGroups", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "TemporaryFileSystem", "BindPaths", "ProtectProc", "RuntimeDirectory"} {
		require.NotContains(t, text, "\n"+setting+"=")
	}
	require.NotContains(t, packaged(t, "hardened.conf"), "\nPrivateTmp=", "its files go with the unit, and the supervisor stays")
}

func TestTheConfigurationOfPackagesIsOne(t *testing.T) {
	for _, name := range []string{"wasmnode.hcl", "image.hcl"} {
		cfg := config.Default()
		require.NoError(t, cfg.Load(filepath.Join(packaging, name)), name)
		require.NoError(t, cfg.Validate(), name)
		require.Empty(t, cfg.Warnings, name)
		require.Equal(t, "/var/lib/wasmnode", cfg.DataDir, name)
		require.Equal(t, "/var/lib/wasmnode/plugins", cfg.PluginDir, name)
		require.Equal(t, "/run/wasmnode/api.sock", cfg.Socket(), name)
	}
	// What it says that could be is right, too.
	var all strings.Builder
	for line := range strings.Lines(packaged(t, "wasmnode.hcl")) {
		// Text has a space behind the mark, and commands in it two more.
		if could, is := strings.CutPrefix(line, "#"); is && (len(could)-len(strings.TrimLeft(could, " ")))%2 == 0 {
			all.WriteString(could)
		}
	}
	file := filepath.Join(t.TempDir(), "all.hcl")
	require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o600))
	cfg := config.Default()
	require.NoError(t, cfg.Load(file), all.String())
	require.Equal(t, "0.0.0.0", cfg.BindAddr)
	require.True(t, cfg.Access.TLS.VerifyHTTPSClient)
	require.Equal(t, "edge", cfg.Client.NodeClass)
}

func TestTheScriptsOfPackagesAreShell(t *testing.T) {
	for _, name := range []string{"preinst", "postinst", "prerm", "postrm"} {
		out, err := exec.Command("sh", "-n", filepath.Join(packaging, name)).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, packaged(t, name), "#!/bin/sh\n")
		require.Contains(t, packaged(t, name), "\nset -e\n")
	}
}
