package process_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

const script = "#!/bin/sh\necho \"$0 in $(pwd)\"\n"

func TestAnIsolatedCommandIsFoundInItsRoot(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct{ command, path, dir, says string }{
		"absolute":                   {"/local/tool", "", "/", "/local/tool in /"},
		"below the root":             {"local/tool", "", "/", "/local/tool in /"},
		"a name in the search":       {"tool", "", "/local", "/local/tool in /local"},
		"a name on the PATH":         {"other", "/usr/bin:/opt/programs", "/", "/opt/programs/other in /"},
		"a name on the default PATH": {"pwd", "", "/usr/lib", "/usr/lib"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := w.isolated("")
			w.put(spec, "local/tool", script)
			w.put(spec, "opt/programs/other", script)
			spec.Env = map[string]string{"PATH": c.path}
			p := spec.Process
			p.Command, p.Args, p.Dir, p.Isolated.Search = c.command, nil, c.dir, []string{"/local", "/"}
			result, stdoutOf := w.finish(spec)
			require.True(t, result.Successful())
			require.Equal(t, c.says, stdoutOf)
		})
	}
}

func TestAnIsolatedProcessHasItsMountsAndDevices(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("content\n"), 0o644))
	spec := w.isolated(`
		cat /data/in /etc-of-mine/app.conf
		(: >/etc-of-mine/app.conf) 2>/dev/null && echo wrote what is read-only
		echo written >/data/deep/out
		ls -l /dev/fuse-of-mine | cut -c1; echo $(ls /dev | wc -l)`)
	i := spec.Process.Isolated
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deep"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(dir, "deep"), 0o777))
	i.Mounts = append(i.Mounts,
		workload.Mount{GuestPath: "/data/deep", HostPath: filepath.Join(dir, "deep")},
		workload.Mount{GuestPath: "/data", HostPath: dir, ReadOnly: true, Within: dir},
		workload.Mount{GuestPath: "/etc-of-mine/app.conf", HostPath: filepath.Join(dir, "in"), ReadOnly: true},
	)
	i.Devices = []workload.Device{{GuestPath: "/dev/fuse-of-mine", HostPath: "/dev/null"}}
	result, stdoutOf := w.finish(spec)
	require.True(t, result.Successful())
	require.Equal(t, "content\ncontent\nc\n14", stdoutOf)
	b, err := os.ReadFile(filepath.Join(dir, "deep/out"))
	require.NoError(t, err)
	require.Equal(t, "written\n", string(b))
}

func TestLinksInARootLeadNowhereElse(t *testing.T) {
	w, node := newWorld(t), t.TempDir()
	mounted := func(link string) error {
		spec := w.isolated(`ls /local/inside/deep/os-release`)
		// As a task may have left it before it was restarted.
		require.NoError(t, os.Symlink(link, filepath.Join(spec.Process.Isolated.Root, "elsewhere")))
		mount := workload.Mount{GuestPath: "/elsewhere/inside/deep", HostPath: "/usr/lib", ReadOnly: true}
		spec.Process.Isolated.Mounts = append(spec.Process.Isolated.Mounts, mount)
		if err := w.s.Start(w.context(), spec); err != nil {
			return err
		}
		require.True(t, w.wait(spec).Successful())
		return nil
	}
	require.NoError(t, mounted("/local"), "as the task sees it")
	require.ErrorContains(t, mounted(node), "mount /usr/lib at /elsewhere/inside/deep: /elsewhere is a link that leads nowhere in the root")
	entries, err := os.ReadDir(node)
	require.NoError(t, err)
	require.Empty(t, entries, "no mount point was made on the node")
}

func TestAFailedIsolationIsReportedInOneLine(t *testing.T) {
	w := newWorld(t)
	w.ask("true") // what isolates processes runs from now on
	before := openFiles(t)
	for name, c := range map[string]struct {
		change func(s *workload.Spec)
		code   abi.Code
		says   string
	}{
		"no such name":    {func(s *workload.Spec) { s.Process.Command = "serverd" }, abi.NotFound, "command serverd: the task has no such program in /local, /usr/bin, /bin"},
		"no such path":    {func(s *workload.Spec) { s.Process.Command = "local/serverd" }, abi.NotFound, "command /local/serverd: no such file or directory"},
		"not in the root": {func(s *workload.Spec) { s.Process.Command = "/root/serverd" }, abi.NotFound, "command /root/serverd: no such file or directory"},
		"no interpreter":  {func(s *workload.Spec) { s.Process.Command = "local/lost" }, abi.NotFound, "command /local/lost: its interpreter or loader is not in the task's root"},
		"no program":      {func(s *workload.Spec) { s.Process.Command = "local/text" }, abi.InvalidArgument, "command /local/text: neither a program of this machine nor a script with #!"},
		"not executable":  {func(s *workload.Spec) { s.Process.Command = "/etc/passwd" }, abi.PermissionDenied, "command /etc/passwd: permission denied"},
		"a directory":     {func(s *workload.Spec) { s.Process.Command = "/usr" }, abi.PermissionDenied, "command /usr: permission denied"},
		"no directory":    {func(s *workload.Spec) { s.Process.Dir = "/srv" }, abi.NotFound, "working directory /srv: no such file or directory"},
		"one not for it":  {func(s *workload.Spec) { s.Process.Dir = "/closed" }, abi.PermissionDenied, "working directory /closed: permission denied"},
		"a relative one":  {func(s *workload.Spec) { s.Process.Dir = "srv" }, abi.InvalidArgument, `working directory "srv" is not an absolute path`},
		"no root":         {func(s *workload.Spec) { s.Process.Isolated.Root += "/none" }, abi.NotFound, "/none: no such file or directory"},
		"no such user":    {func(s *workload.Spec) { s.Process.User = "nobody-of-that-name" }, abi.InvalidArgument, `user "nobody-of-that-name": `},
		"no description":  {func(s *workload.Spec) { s.Process.Isolated = nil }, abi.InvalidArgument, "isolation full needs a command and a root"},
		"too little":      {func(s *workload.Spec) { s.MemoryMaxBytes = 1 << 20 }, abi.InvalidArgument, "memory of 1048576 bytes: an isolated process needs 4194304 at least"},
		"no such device": {func(s *workload.Spec) {
			s.Process.Isolated.Devices = []workload.Device{{GuestPath: "/dev/x", HostPath: "/dev/none"}}
		}, abi.NotFound, "device /dev/none: no such file or directory"},
		"in /proc":         {func(s *workload.Spec) { w.mountLast(s, "/proc/mine") }, abi.InvalidArgument, `"/proc/mine" is in /proc, which is the kernel's`},
		"over /proc":       {func(s *workload.Spec) { w.mountLast(s, "/proc/") }, abi.InvalidArgument, `"/proc/" is in /proc, which is the kernel's`},
		"a zero byte":      {func(s *workload.Spec) { s.Process.Args = []string{"a\x00b"} }, abi.InvalidArgument, `"a\x00b" has a zero byte in it: invalid argument`},
		"in what is fixed": {func(s *workload.Spec) { w.mountLast(s, "/usr/none/deep") }, abi.FailedPrecondition, "at /usr/none/deep: read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := w.isolated("exit 0")
			spec.Process.Isolated.Search = []string{"/local"}
			w.put(spec, "local/lost", "#!/opt/perl\n")
			w.put(spec, "local/text", "neither\n")
			require.NoError(t, os.Mkdir(filepath.Join(spec.Process.Isolated.Root, "closed"), 0o700))
			c.change(spec)
			err := w.s.Start(w.context(), spec)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, c.code, abi.CodeOf(err), err.Error())
			require.False(t, abi.IsRecoverable(err))
			_, err = w.s.Inspect(w.context(), spec.ID)
			require.ErrorIs(t, err, abi.ErrTaskNotFound)
		})
	}
	require.Empty(t, w.s.Groups(), "nothing is left of them")
	require.LessOrEqual(t, openFiles(t), before, "and no file is open")
}

// Roots are built by threads of the supervisor, which stays where it is.
func TestTheSupervisorStaysInItsNamespaces(t *testing.T) {
	w := newWorld(t)
	where := func() (places []string) {
		for _, name := range []string{"ns/mnt", "ns/net", "ns/pid", "ns/pid_for_children", "ns/ipc", "ns/uts", "root", "cwd"} {
			place, err := os.Readlink("/proc/self/" + name)
			require.NoError(t, err)
			places = append(places, place)
		}
		return places
	}
	w.ask("true") // what isolates processes runs from now on
	before, files := where(), openFiles(t)
	var starts sync.WaitGroup
	for range 20 {
		specs := []*workload.Spec{w.isolated("true"), w.isolated("true")}
		specs[1].Process.Network = workload.NoNetwork
		for _, spec := range specs {
			starts.Go(func() {
				if err := w.s.Start(w.context(), spec); err != nil {
					t.Error(err)
				}
			})
		}
	}
	starts.Wait()
	require.Equal(t, before, where())
	require.Eventually(t, func() bool { return openFiles(t) <= files }, testTimeout, time.Millisecond)
}

// A file system that does not answer holds up the start that asks it, until it is told to end, and
// no other.
func TestAFileSystemThatDoesNotAnswerHoldsUpItsOwnStartOnly(t *testing.T) {
	w := newWorld(t)
	dir, server := mountSilent(t)
	held := w.isolated("true")
	held.Process.Isolated.Mounts = append(held.Process.Isolated.Mounts, workload.Mount{GuestPath: "/data", HostPath: filepath.Join(dir, "sub")})
	ctx, cancel := context.WithCancel(w.context())
	started := make(chan error, 1)
	go func() { started <- w.s.Start(ctx, held) }()
	result, _ := w.finish(w.isolated("true"))
	require.True(t, result.Successful())
	select {
	case err := <-started:
		t.Fatal("it was started, or not: ", err)
	default:
	}
	before := openFiles(t)
	cancel()
	require.ErrorIs(t, <-started, context.Canceled)
	stopped := w.isolated("true")
	stopped.Process.Isolated.Mounts = held.Process.Isolated.Mounts
	go func() { started <- w.s.Start(w.context(), stopped) }()
	require.Eventually(t, func() bool { return w.s.Signal(w.context(), stopped.ID, "SIGKILL") == nil }, testTimeout, time.Millisecond)
	require.Equal(t, abi.Cancelled, abi.CodeOf(<-started), "so does a signal")
	require.NoError(t, server.Close())
	require.Eventually(t, func() bool { return openFiles(t) < before }, testTimeout, time.Millisecond, "nothing of it is left once the file system has gone")
}

// mountSilent mounts a file system whose server answers nothing until it is closed.
func mountSilent(t *testing.T) (dir string, server *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("this machine has no file systems of programs: ", err)
	}
	server = os.NewFile(uintptr(fd), "/dev/fuse")
	t.Cleanup(func() { _ = server.Close() })
	dir = t.TempDir()
	require.NoError(t, unix.Mount("silent", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir, server
}

// The kernel looks for what to kill for want of memory among all that share some with the process.
func TestACommandWithMoreArgumentsThanMemoryEndsAlone(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated("true")
	spec.MemoryMaxBytes = process.MinMemory
	spec.Process.Command, spec.Process.Args = "/bin/true", nil
	spec.Process.Bounds.Limits = []workload.Limit{{Name: "stack", Soft: 1 << 30, Hard: 1 << 30}}
	for range 40 {
		spec.Process.Args = append(spec.Process.Args, strings.Repeat("x", 128<<10-1))
	}
	w.ask("true")
	isolator := w.s.IsolatorPID()
	if err := w.s.Start(w.context(), spec); err == nil {
		w.wait(spec)
	}
	w.ask("true")
	require.Equal(t, isolator, w.s.IsolatorPID())
}

func (w *world) mountLast(s *workload.Spec, target string) {
	s.Process.Isolated.Mounts = append(s.Process.Isolated.Mounts, workload.Mount{GuestPath: target, HostPath: w.t.TempDir()})
}

func TestAnIsolatedStartEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated("exec sleep 1000")
	ctx, cancel := context.WithCancel(w.context())
	cancel()
	require.ErrorIs(t, w.s.Start(ctx, spec), context.Canceled)
	require.Zero(t, w.left())
	require.NoError(t, w.s.Start(w.context(), spec), "its name is free again")
}

// TestASignalToAnIsolatedProcessThatIsStartingEndsIt: it is sent to what is about to execute
// the command.
func TestASignalToAnIsolatedProcessThatIsStartingEndsIt(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		spec := w.isolated(`while :; do sleep 1000; done`)
		started := make(chan error, 1)
		go func() { started <- w.s.Start(w.context(), spec) }()
		require.Eventually(t, func() bool { return w.s.Signal(w.context(), spec.ID, "SIGTERM") == nil }, testTimeout, 10*time.Microsecond)
		if err := <-started; err != nil {
			require.Equal(t, abi.Cancelled, abi.CodeOf(err), "%v", err)
			continue
		}
		require.Equal(t, &structs.ExitResult{ExitCode: 143, Signal: 15}, w.wait(spec))
	}
}

// TestASignalEndsAnIsolatedShellThatBlocksItForAMoment: a shell blocks all signals while
// it forks, and the kernel withholds from a namespace's first process what comes then.
func TestASignalEndsAnIsolatedShellThatBlocksItForAMoment(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		spec := w.isolated(`while :; do /bin/true; done`)
		require.NoError(t, w.s.Start(w.context(), spec))
		time.Sleep(rand.N(20 * time.Millisecond)) // at any point of its loop
		require.NoError(t, w.s.Signal(w.context(), spec.ID, "SIGTERM"))
		require.Equal(t, &structs.ExitResult{ExitCode: 143, Signal: 15}, w.wait(spec))
	}
}

func TestASignalThatAnIsolatedProcessBlocksReachesIt(t *testing.T) {
	if exec.Command("perl", "-MPOSIX", "-e", "1").Run() != nil {
		t.Skip("this machine has no Perl, whose programs can block signals")
	}
	w := newWorld(t)
	for name, wait := range map[string]string{"asleep": "sleep 1;", "busy": ""} {
		t.Run(name, func(t *testing.T) {
			spec := w.isolated("")
			spec.Process.Command, spec.Process.Args = "perl", []string{"-MPOSIX", "-e", `
				sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGTERM)); $| = 1; print "blocks\n";
				my $pending = POSIX::SigSet->new;
				do { ` + wait + ` sigpending($pending) } until $pending->ismember(SIGTERM);
				exit 3`}
			require.NoError(t, w.s.Start(w.context(), spec))
			require.Equal(t, "blocks", w.ready(spec))
			require.NoError(t, w.s.Signal(w.context(), spec.ID, "SIGTERM"))
			require.Equal(t, &structs.ExitResult{ExitCode: 3}, w.wait(spec))
		})
	}
}

func TestAProcessThatEndsBeforeItIsIsolatedIsReportedInOneLine(t *testing.T) {
	theirs, ours, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, ours.Close()) }()
	require.NoError(t, theirs.Close())
	err = isolate.Send(ours, strings.NewReader(""), &isolate.Spec{})
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NotContains(t, err.Error(), "\n")
}

func TestAnIsolatedProcessLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	spec := w.isolated(`(setsid sh -c 'while :; do sleep 1000; done' "$0" &) ; exit 3`)
	result, _ := w.finish(spec)
	require.Equal(t, 3, result.ExitCode)
	require.Zero(t, w.left())
	require.Empty(t, w.s.Groups())
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.False(t, strings.Contains(string(mounts), spec.Process.Isolated.Root), "the node has none of its mounts")
}
