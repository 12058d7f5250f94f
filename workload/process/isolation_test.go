package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// programs are the directories of the node that isolated scripts have.
var programs = slices.DeleteFunc([]string{"/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr"}, func(dir string) bool {
	_, err := os.Stat(dir)
	return err != nil // arm64 has no /lib64
})

// rootOfScripts are the names in the root of an isolated script.
func rootOfScripts() string {
	names := []string{"dev", "local", "proc", "sys"}
	for _, dir := range programs {
		names = append(names, filepath.Base(dir))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// isolated returns the spec of a script that runs isolated, as nobody; $0 is the token.
func (w *world) isolated(text string) *workload.Spec {
	w.t.Helper()
	if err := process.FullIsolation(); err != nil {
		w.t.Skip("this machine cannot isolate processes: ", err)
	}
	spec := w.script(text)
	spec.MemoryMaxBytes = 64 << 20
	p := spec.Process
	p.Isolation, p.User, p.Dir = workload.IsolationFull, "nobody", "/"
	p.Isolated = &workload.Isolated{Root: w.t.TempDir()}
	for _, dir := range programs {
		p.Isolated.Mounts = append(p.Isolated.Mounts, workload.Mount{GuestPath: dir, HostPath: dir, ReadOnly: true})
	}
	w.put(spec, "local", "")
	return spec
}

// put makes a file of the root, or a directory when it has no content, that everybody
// may change and execute.
func (w *world) put(spec *workload.Spec, name, content string) {
	w.t.Helper()
	path := filepath.Join(spec.Process.Isolated.Root, name)
	if content == "" {
		require.NoError(w.t, os.MkdirAll(path, 0o777))
	} else {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(w.t, os.WriteFile(path, []byte(content), 0o777))
	}
	require.NoError(w.t, os.Chmod(path, 0o777))
}

// finish starts a spec and returns how it ended and what it said.
func (w *world) finish(spec *workload.Spec) (*structs.ExitResult, string) {
	w.t.Helper()
	require.NoError(w.t, w.s.Start(w.context(), spec))
	return w.wait(spec), strings.TrimSpace(w.stdoutOf(spec))
}

// ask runs a script isolated, which has to succeed, and returns what it said.
func (w *world) ask(text string) string {
	w.t.Helper()
	result, stdoutOf := w.finish(w.isolated(text))
	require.True(w.t, result.Successful(), "%v: %s", result, stdoutOf)
	return stdoutOf
}

func TestAnIsolatedProcessSeesItsRootOnly(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, rootOfScripts(), w.ask(`echo $(ls /)`))
	require.Empty(t, w.ask(`ls -d /root /home /var /tmp /run /proc/1/root/root /proc/1/cwd/root 2>/dev/null; true`))
}

func TestAnIsolatedProcessChangesNothingOfTheNode(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"nobody", "root"} {
		spec := w.isolated(`
			for d in /usr /etc /bin /sys /proc/sys/kernel; do (: >$d/written) 2>/dev/null && echo wrote $d; done
			(echo 1 >/proc/sys/kernel/sysrq) 2>/dev/null && echo wrote a setting
			(echo h >/proc/sysrq-trigger) 2>/dev/null && echo wrote a trigger
			(mknod /local/disk b 254 0) 2>/dev/null && echo made a device
			hostname other 2>/dev/null && echo named the machine
			mount -t tmpfs none /local 2>/dev/null && echo mounted
			unshare -U true 2>/dev/null && echo made a namespace
			: >/local/own && echo wrote its own`)
		spec.Process.User = user
		_, stdoutOf := w.finish(spec)
		require.Equal(t, "wrote its own", stdoutOf, user)
		require.FileExists(t, filepath.Join(spec.Process.Isolated.Root, "local/own"))
	}
}

func TestAnIsolatedProcessIsFirstOfItsNamespace(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "1", w.ask(`echo $$`))
	require.Equal(t, "1", w.ask(`set -- /proc/[0-9]*; echo $#`), "it sees none but its own processes")
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, host, w.ask(`hostname`))
	for _, namespace := range []string{"mnt", "pid", "ipc", "uts"} {
		own, err := os.Readlink("/proc/self/ns/" + namespace)
		require.NoError(t, err)
		require.NotEqual(t, own, w.ask(`readlink /proc/self/ns/`+namespace))
	}
}

func TestAnIsolatedProcessHasAProcAndADevOfItsOwn(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "0 0 0", w.ask(`echo $(wc -c </proc/kcore 2>/dev/null || echo 0) $(wc -c </proc/keys) $(ls /sys/firmware | wc -l)`))
	require.Equal(t, "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero", w.ask(`echo $(ls /dev)`))
	require.Equal(t, "4 said", w.ask(`echo gone >/dev/null; echo $(head -c 4 /dev/urandom | wc -c) $(echo said >/dev/shm/x; cat /dev/shm/x)`))
	require.NoFileExists(t, "/dev/shm/x")
}

func TestAnIsolatedProcessHasFewPrivileges(t *testing.T) {
	w := newWorld(t)
	const status = `echo $(grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2); echo $(id -u) $(id -g) $(id -G)`
	const bindPorts = "0000000000000400"
	require.Equal(t, strings.Repeat(bindPorts+" ", 5)+"1 2\n65534 65534 65534", w.ask(status))

	spec := w.isolated(status)
	spec.Process.User = "root"
	_, stdoutOf := w.finish(spec)
	const few = "00000000000405fb"
	require.Equal(t, "0000000000000000 "+few+" "+few+" "+few+" 0000000000000000 1 2\n0 0 0", stdoutOf)
}

// pid returns the number that the node has for a script's first process.
func (w *world) pid(spec *workload.Spec) string {
	w.t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(w.t, err)
	root, err := os.Stat(spec.Process.Isolated.Root)
	require.NoError(w.t, err)
	for _, p := range all {
		own, err := os.Stat(fmt.Sprintf("/proc/%d/root", p.PID))
		if err == nil && os.SameFile(root, own) {
			return fmt.Sprint(p.PID)
		}
	}
	w.t.Fatal("it does not run")
	return ""
}

func TestAnUnknownIsolationIsRefused(t *testing.T) {
	require.NoError(t, process.CheckIsolation(workload.IsolationNone))
	require.Equal(t, process.FullIsolation(), process.CheckIsolation(workload.IsolationFull))
	require.ErrorContains(t, process.CheckIsolation("half"), `unknown isolation "half"`)
}
