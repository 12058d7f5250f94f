package process_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

func TestAnIsolatedProcessInheritsNothing(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	w := newWorld(t)
	leaked, err := syscall.Open("/etc/hostname", syscall.O_RDONLY, 0) // without close-on-exec
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(leaked)) }()
	require.Equal(t, strings.Join([]string{
		"0 1 2 3",
		"SigBlk:0000000000000000 SigIgn:0000000000000000",
		"session 1 of 1", "umask 0022", "core 0 0",
	}, "\n"), w.ask(`
		env | grep SECRET
		echo $(ls /proc/self/fd)
		echo $(grep -E '^(SigBlk|SigIgn)' /proc/self/status | tr -d '\t')
		echo session $(cut -d' ' -f6 /proc/self/stat) of $$
		echo umask $(umask)
		echo core $(ulimit -Sc) $(ulimit -Hc)`), "3 is the directory that ls reads")
}

// Go's runtime raises this program's own limit.
func TestProcessesBeginWithTheLimitOfOpenFilesThatTheSupervisorBeganWith(t *testing.T) {
	const limit = "WASMNODE_TEST_OPEN_FILES"
	if want := os.Getenv(limit); want != "" {
		w := newWorld(t)
		plain, isolated := w.script(`ulimit -Sn`), w.isolated(`ulimit -Sn`)
		bounded := w.script(`ulimit -Sn`)
		bounded.Process.Bounds.OOMScoreAdj = 1
		for _, spec := range []*workload.Spec{plain, isolated, bounded} {
			result, stdoutOf := w.finish(spec)
			require.True(t, result.Successful())
			require.Equal(t, want, stdoutOf, "%+v", spec.Process)
		}
		held := w.waitIsolated()
		r := w.exec(held.ID, nil, "ulimit -Sn")
		require.NoError(t, r.err)
		require.Equal(t, want, strings.TrimSpace(r.stdout))
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `ulimit -Sn 512 && exec "$0" -test.run "^$1\$"`, self, t.Name())
	cmd.Env = append(os.Environ(), limit+"=512")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
}

// What only other users may search is not where the command is found.
func TestTheCommandIsLookedForAsTheUser(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated("")
	for _, dir := range []string{"closed", "group", "local"} {
		w.put(spec, dir+"/tool", "#!/bin/sh\necho $0\n")
	}
	root := spec.Process.Isolated.Root
	require.NoError(t, os.Chmod(filepath.Join(root, "closed"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(root, "group/tool"), 0o710))
	spec.Env = map[string]string{"PATH": "/closed:/group:/local"}
	spec.Process.Command, spec.Process.Args = "tool", nil
	result, stdoutOf := w.finish(spec)
	require.True(t, result.Successful())
	require.Equal(t, "/local/tool", stdoutOf)
}

// As far as this kernel has what is hidden or fixed.
func TestWhatIsInProcIsHiddenOrReadOnly(t *testing.T) {
	w := newWorld(t)
	mounts := map[string]string{} // options, by place
	for line := range strings.Lines(w.ask(`cat /proc/self/mountinfo`)) {
		fields := strings.Fields(line)
		mounts[fields[4]] = fields[5]
	}
	require.Equal(t, "rw,nosuid,nodev,noexec,relatime", mounts["/proc"])
	for _, name := range []string{
		"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
		"bus", "fs", "irq", "sys", "sysrq-trigger",
	} {
		info, err := os.Lstat("/proc/" + name)
		if err != nil {
			continue
		}
		options := strings.Split(mounts["/proc/"+name], ",")
		require.Contains(t, options, "ro", name)
		if info.IsDir() || slices.Contains([]string{"sysrq-trigger"}, name) {
			require.Subset(t, options, []string{"nosuid", "nodev", "noexec"}, name)
		}
	}
	require.Equal(t, "0 0", w.ask(`echo $(ls /proc/acpi /proc/asound /proc/scsi 2>/dev/null | grep -vc :) $(cat /proc/interrupts /proc/timer_list 2>/dev/null | wc -c)`))
}

func TestAJobsOwnDevChangesNothingOfWhatIsHidden(t *testing.T) {
	w := newWorld(t)
	for _, has := range []string{"", "null"} {
		spec := w.isolated(`cat /proc/keys; echo $(ls /dev)`)
		dev := t.TempDir()
		if has != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dev, has), []byte("the job's\n"), 0o644))
		}
		require.NoError(t, os.Chmod(dev, 0o755))
		spec.Process.Isolated.Mounts = append(spec.Process.Isolated.Mounts, workload.Mount{GuestPath: "/dev", HostPath: dev})
		result, stdoutOf := w.finish(spec)
		require.True(t, result.Successful(), "%q: %s", has, stdoutOf)
		require.Equal(t, has, stdoutOf)
	}
}

// What a task left in its directory decides where in that its processes are mounted, and no mount does.
func TestALinkAtProcLeadsIntoTheTasksDirectoryOnly(t *testing.T) {
	w, volume := newWorld(t), t.TempDir()
	require.NoError(t, os.Chmod(volume, 0o755))
	spec := w.isolated(`cat /proc/self/comm /local/own/self/comm; ls /data`)
	spec.Process.Isolated.Mounts = append(spec.Process.Isolated.Mounts, workload.Mount{GuestPath: "/data", HostPath: volume})
	w.put(spec, "local/own", "")
	require.NoError(t, os.Symlink("/local/own", filepath.Join(spec.Process.Isolated.Root, "proc")))
	_, stdoutOf := w.finish(spec)
	require.Equal(t, "cat\ncat", stdoutOf)

	spec = w.isolated(`ls /data`)
	spec.Process.Isolated.Mounts = append(spec.Process.Isolated.Mounts, workload.Mount{GuestPath: "/data", HostPath: volume})
	require.NoError(t, os.Symlink("/data/own", filepath.Join(spec.Process.Isolated.Root, "proc")))
	require.Error(t, w.s.Start(w.context(), spec))
	entries, err := os.ReadDir(volume)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestAnIsolatedProcessSeesTheInterfacesOfItsNetworkOnly(t *testing.T) {
	w := newWorld(t)
	for name, network := range map[string]string{"given": newNetwork(t), "none": workload.NoNetwork} {
		spec := w.isolated(`echo $(ls /sys/class/net)`)
		spec.Process.Network = network
		_, stdoutOf := w.finish(spec)
		require.Equal(t, "lo", stdoutOf, name)
	}
}

func TestAProcessThatWasKilledBeforeItsStartDoesNotStart(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		spec := w.isolated(`: >/local/ran`)
		require.Equal(t, abi.Cancelled, abi.CodeOf(w.s.StartKilled(w.context(), spec)))
		require.NoFileExists(t, filepath.Join(spec.Process.Isolated.Root, "local/ran"))
	}
	require.Zero(t, w.left())
	require.Empty(t, w.s.Groups())
}

// It is neither lost, nor sent to whoever else would get it.
func TestASignalThatEndsNothingIsNotSentToWhatIsStarting(t *testing.T) {
	w := newWorld(t)
	here := make(chan os.Signal, 1)
	signal.Notify(here, syscall.SIGWINCH)
	defer signal.Stop(here)
	dir, server := mountSilent(t)
	held := w.isolated("true")
	held.Process.Isolated.Mounts = append(held.Process.Isolated.Mounts, workload.Mount{GuestPath: "/data", HostPath: filepath.Join(dir, "sub")})
	started := make(chan error, 1)
	go func() { started <- w.s.Start(w.context(), held) }()
	require.Eventually(t, func() bool {
		_, err := w.s.Inspect(w.context(), held.ID)
		return err == nil
	}, testTimeout, time.Millisecond)
	require.Error(t, w.s.Signal(w.context(), held.ID, "SIGWINCH"))
	require.Empty(t, here)
	require.NoError(t, server.Close())
	require.Error(t, <-started)
}

// Whoever enters a mount namespace begins at its top, which is another place than the root of an agent
// that was started in a directory of the node's.
func TestAnIsolatedProcessSeesItsRootOnlyWhereTheSupervisorHasAnother(t *testing.T) {
	const inside = "WASMNODE_TEST_CHROOT"
	if os.Getenv(inside) != "" {
		require.NoError(t, process.FullIsolation())
		w := newWorld(t)
		require.Equal(t, rootOfScripts(), w.ask(`echo $(ls /)`))
		require.Equal(t, "1 of 1", w.ask(`set -- /proc/[0-9]*; echo $# of $$; ls /work /root /home 2>/dev/null; true`))
		return
	}
	newWorld(t).isolated("") // or it is left out
	self, err := os.Executable()
	require.NoError(t, err)
	const enter = `
		mount -t tmpfs root "$0"; cd "$0"
		for dir in bin dev etc lib lib64 proc sbin sys tmp usr; do
			if [ -e /$dir ]; then mkdir $dir; mount --rbind /$dir $dir; fi
		done
		cp "$1" test; shift
		exec chroot . ./test "$@"`
	cmd := exec.Command("unshare", "-m", "sh", "-ec", enter, t.TempDir(), self, "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"=1", "TMPDIR=/tmp")
	cmd.Dir = "/"
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
}

// Whoever may write to a file can have those that execute it wait, for 45 seconds at a time.
func TestACommandThatCannotBeOpenedHoldsUpItsOwnStartOnly(t *testing.T) {
	w := newWorld(t)
	held := w.isolated("")
	w.put(held, "local/tool", script)
	file, err := os.OpenFile(filepath.Join(held.Process.Isolated.Root, "local/tool"), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer file.Close()
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	require.NoError(t, err)
	held.Process.Command, held.Process.Args = "/local/tool", nil
	ctx, cancel := context.WithCancel(w.context())
	started := make(chan error, 1)
	go func() { started <- w.s.Start(ctx, held) }()
	for range 3 {
		result, _ := w.finish(w.isolated("true"))
		require.True(t, result.Successful())
		w.run("true")
	}
	select {
	case err := <-started:
		t.Fatal("it was started, or not: ", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-started, context.Canceled)
	require.Zero(t, w.left())
}

// With cgroups of version 2 they enable the controllers of those that all are in.
func TestTheFirstIsolatedProcessesOfARuntimeMayStartAtOnce(t *testing.T) {
	const runtimes, processes = 5, 4
	for range runtimes {
		w := newWorld(t)
		started := make(chan error, processes)
		for range processes {
			spec := w.isolated("exec sleep 1000")
			go func() { started <- w.s.Start(w.context(), spec) }()
		}
		for range processes {
			require.NoError(t, <-started)
		}
	}
}

func TestAScoreForWantOfMemoryIsItsProcesssOwn(t *testing.T) {
	w := newWorld(t)
	before := w.ask(`cat /proc/self/oom_score_adj`)
	spec := w.isolated(`cat /proc/self/oom_score_adj`)
	spec.Process.Bounds.OOMScoreAdj = 700
	_, stdoutOf := w.finish(spec)
	require.Equal(t, "700", stdoutOf)
	require.Equal(t, before, w.ask(`cat /proc/self/oom_score_adj`))
}
