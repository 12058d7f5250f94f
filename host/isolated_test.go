package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// isolatedShell is a request to run a shell command as nobody, isolated.
func isolatedShell(t *testing.T, command string) *wasmnodev1.ProcessStartRequest {
	t.Helper()
	if err := process.FullIsolation(); err != nil {
		t.Skip("this machine cannot isolate processes: ", err)
	}
	r := shell(command)
	r.Isolation, r.User = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL, "nobody"
	r.Env = map[string]string{"PATH": "/usr/bin:/bin"}
	return r
}

// anyAsNobody grants every command, isolated.
var anyAsNobody = host.ProcessGrant{Commands: []string{"*"}, Users: []string{"nobody"}, Isolation: workload.IsolationFull}

// isolatedScope is the scope of a task with all its directories.
func isolatedScope(t *testing.T) *host.TaskScope {
	t.Helper()
	scope := taskScope(t)
	d := scope.Config.Directories
	d.Local, d.Secrets = filepath.Join(d.Task, "local"), filepath.Join(d.Task, "secrets")
	for dir, mode := range map[string]os.FileMode{d.Local: 0o777, d.Secrets: 0o700, d.Shared: 0o777, d.Task: 0o711} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.Chmod(dir, mode))
	}
	return scope
}

// stdoutOf starts a process, waits for it and returns its standard output.
func (w *world) stdoutOf(t *testing.T, scope *host.TaskScope, grant host.ProcessGrant, r *wasmnodev1.ProcessStartRequest) string {
	t.Helper()
	code, message := decodeAnswer(t, startProcess(t, w, scope, grant, r))
	require.Zero(t, code, string(message))
	_, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
	require.NoError(t, err)
	return strings.TrimSpace(string(stdout))
}

func TestAnIsolatedTasksRootIsItsDirectory(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), isolatedScope(t)
	volume := t.TempDir()
	put(t, volume, "data", []byte("of the volume\n"))
	scope.Config.Mounts = []*wasmnodev1.Mount{{TaskPath: "srv/volume", HostPath: volume, ReadOnly: true}}
	scope.Config.Devices = []*wasmnodev1.DeviceNode{{TaskPath: "/dev/mine", HostPath: "/dev/zero"}}
	stdout := w.stdoutOf(t, scope, anyAsNobody, isolatedShell(t, `
		pwd; echo $(ls /etc); cat /srv/volume/data
		for d in /alloc /local /secrets /; do echo mine >$d/written; done; ls / >/dev/null || echo closed
		head -c 3 /dev/mine | wc -c`))
	require.Equal(t, "/\nhosts passwd resolv.conf\nof the volume\n3", stdout)
	d := scope.Config.Directories
	for _, dir := range []string{d.Shared, d.Local, d.Secrets, d.Task} {
		require.FileExists(t, filepath.Join(dir, "written"))
	}
	require.NoDirExists(t, filepath.Join(d.Task, "none"))
}

func TestAnIsolatedCommandIsWhatTheTaskSees(t *testing.T) {
	byPath := func(commands ...string) host.ProcessGrant {
		return host.ProcessGrant{Commands: commands, Users: []string{"nobody"}}
	}
	for name, c := range map[string]struct {
		command, dir string
		grant        host.ProcessGrant
		says         string
	}{
		"below the task":       {"local/tool", "", anyAsNobody, "/local/tool in /"},
		"granted by its path":  {"local/tool", "local", byPath("/local/tool"), "/local/tool in /local"},
		"the task's own":       {"tool", "/local", anyAsNobody, "/local/tool in /local"},
		"the task's, granted":  {"tool", "", byPath("/local/*"), "/local/tool in /"},
		"on the PATH":          {"pwd", "/usr", anyAsNobody, "/usr"},
		"on the PATH, granted": {"pwd", "/usr", byPath("/usr/bin/*", "/bin/*"), "/usr"},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), isolatedScope(t)
			tool := put(t, scope.Config.Directories.Task, "local/tool", []byte("#!/bin/sh\necho $0 in $(pwd)\n"))
			require.NoError(t, os.Chmod(tool, 0o755))
			r := isolatedShell(t, "")
			r.Command, r.Args, r.Dir = c.command, nil, c.dir
			require.Equal(t, c.says, w.stdoutOf(t, scope, c.grant, r))
		})
	}
}

func TestAnIsolatedProcessThatWasNotGrantedIsNotStarted(t *testing.T) {
	for name, c := range map[string]struct {
		commands []string
		change   func(r *wasmnodev1.ProcessStartRequest)
		code     abi.Code
		says     string
	}{
		"another command":   {[]string{"/bin/*"}, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "local/sh" }, abi.PermissionDenied, "command /local/sh is not granted"},
		"a name":            {[]string{"/local/*"}, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "pwd" }, abi.PermissionDenied, "bin/pwd is not granted"},
		"out of the root":   {[]string{"/bin/*"}, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "../../sbin/init" }, abi.PermissionDenied, "command /sbin/init is not granted"},
		"no command":        {[]string{"*"}, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "" }, abi.InvalidArgument, `"" is not a path`},
		"nowhere":           {[]string{"*"}, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "no-such-command" }, abi.NotFound, "command no-such-command: the task has no such program in /local, /, /usr/bin, /bin"},
		"no such directory": {[]string{"*"}, func(r *wasmnodev1.ProcessStartRequest) { r.Dir = "../x" }, abi.NotFound, "working directory /x: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Limits{})
			r := isolatedShell(t, "exit 0")
			c.change(r)
			grant := host.ProcessGrant{Commands: c.commands, Users: []string{"nobody"}}
			refused := answeredError(t, startProcess(t, w, isolatedScope(t), grant, r))
			require.Equal(t, c.code, refused.Code, refused.Message)
			require.Contains(t, refused.Message, c.says)
		})
	}
}

func TestTheNeedForIsolationIsShown(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, processGuest(shell("exit 0")).Bytes(), host.Grants{Process: withMounts("r:/srv")})
	require.Contains(t, p.Granted(), "wasmnode:process/v1(commands:* users:nobody isolation:full mounts:r:/srv)")
}

func TestAProcessDropsAllCapabilitiesByTheirNames(t *testing.T) {
	r := isolatedShell(t, `grep CapBnd /proc/self/status`)
	for n := range 41 {
		r.DropCapabilities = append(r.DropCapabilities, host.LinuxCapability(n))
	}
	require.Contains(t, newWorld(t, host.Limits{}).stdoutOf(t, isolatedScope(t), anyAsNobody, r), "\t0000000000000000")
}

func TestATasksResourcesBoundIt(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), isolatedScope(t)
	scope.Config.Resources = &wasmnodev1.Resources{CpuMhz: 250, MemoryBytes: 16 << 20, MemoryMaxBytes: 32 << 20}
	code, message := decodeAnswer(t, startProcess(t, w, scope, anyAsNobody, isolatedShell(t, `exec tail /dev/zero`)))
	require.Zero(t, code, string(message))
	exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	require.True(t, exit.OOMKilled)
	stats, err := w.workloads.Stats(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	require.Greater(t, *stats.MemoryMaxBytes, uint64(16<<20))
	require.LessOrEqual(t, *stats.MemoryMaxBytes, uint64(32<<20))
}
