package process_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// kinds are specs of a script without and with isolation.
var kinds = map[string]func(*world, string) *workload.Spec{"plain": (*world).script, "isolated": (*world).isolated}

// bounded is a script's spec with bounds and an input, whose lines it counts.
func bounded(t *testing.T, w *world, script func(*world, string) *workload.Spec) *workload.Spec {
	t.Helper()
	spec := script(w, `ulimit -Sn; ulimit -Hn; ulimit -n 64; ulimit -n 100000 2>/dev/null || echo refused; cat /proc/self/oom_score_adj; cat; [ "$1" = wait ] && sleep 1000`)
	spec.Process.Bounds = workload.Bounds{Limits: []workload.Limit{{Name: "nofile", Soft: 123, Hard: 234}}, OOMScoreAdj: 300}
	input := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(input, []byte("one\ntwo\n"), 0o600))
	spec.Process.Stdin = &workload.Mount{HostPath: input}
	return spec
}

func TestAProcessHasBoundsAndAnInput(t *testing.T) {
	for name, script := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := bounded(t, w, script)
			if os.Geteuid() == 0 { // whom nothing is refused
				spec.Process.User, spec.Process.Dir = "nobody", "/"
			}
			require.NoError(t, w.s.Start(w.context(), spec))
			w.wait(spec)
			require.Equal(t, "123\n234\nrefused\n300\none\ntwo\n", w.stdoutOf(spec))
		})
	}
}

// TestACommandHasTheBoundsOfItsProcess: what is executed in a task is held as the task is.
func TestACommandHasTheBoundsOfItsProcess(t *testing.T) {
	for name, script := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := bounded(t, w, script)
			spec.Process.Args = append(spec.Process.Args, "wait")
			if spec.Process.Isolated != nil {
				spec.Process.Isolated.DropCapabilities = math.MaxUint64
			}
			require.NoError(t, w.s.Start(w.context(), spec))
			w.ready(spec)
			var out strings.Builder
			exit, err := w.s.Exec(w.context(), spec.ID, &workload.ExecSpec{
				Command: "/bin/sh", Args: []string{"-c", "ulimit -Hn; cat /proc/self/oom_score_adj; grep CapBnd /proc/self/status"}, Stdout: &out,
			})
			require.NoError(t, err)
			require.True(t, exit.Successful(), out.String())
			require.True(t, strings.HasPrefix(out.String(), "234\n300\n"), out.String())
			if spec.Process.Isolated != nil {
				require.Contains(t, out.String(), "CapBnd:\t0000000000000000\n")
			}
			require.NoError(t, w.s.Stop(w.context(), spec.ID, "SIGKILL", 0))
		})
	}
}

func TestCapabilitiesAreAddedAndDropped(t *testing.T) {
	raw, bind := workload.Capabilities(1<<unix.CAP_NET_RAW), workload.Capabilities(1<<unix.CAP_NET_BIND_SERVICE)
	for name, c := range map[string]struct {
		user      string
		add, drop workload.Capabilities
		has       string // CapEff, CapBnd
	}{
		"a user's":               {"nobody", 0, 0, "0000000000000400 0000000000000400"},
		"a user's, and one more": {"nobody", raw, 0, "0000000000002400 0000000000002400"},
		"a user's, without":      {"nobody", 0, bind, "0000000000000000 0000000000000000"},
		"only one":               {"nobody", raw, math.MaxUint64, "0000000000002000 0000000000002000"},
		"what is added is there": {"nobody", raw, raw, "0000000000002400 0000000000002400"},
		"root's, without":        {"root", 0, bind, "00000000000401fb 00000000000401fb"},
		"none of root's":         {"root", 0, math.MaxUint64, "0000000000000000 0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := w.isolated(`echo $(sed -n 's/^Cap\(Eff\|Bnd\):.//p' /proc/self/status)`)
			spec.Process.User, spec.Process.Isolated.AddCapabilities, spec.Process.Isolated.DropCapabilities = c.user, c.add, c.drop
			result, out := w.finish(spec)
			require.True(t, result.Successful())
			require.Equal(t, c.has, out)
		})
	}
}

func TestBoundsThatNoProcessCanHaveAreRefused(t *testing.T) {
	var own syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own))
	w := newWorld(t)
	for want, b := range map[string]workload.Bounds{
		`unknown limit "rtprio"`:         {Limits: []workload.Limit{{Name: "rtprio", Soft: 1, Hard: 1}}},
		"limit nofile is given twice":    {Limits: []workload.Limit{{Name: "nofile", Soft: 9, Hard: 9}, {Name: "nofile", Soft: 9, Hard: 9}}},
		"soft 3 is above hard 2":         {Limits: []workload.Limit{{Name: "nproc", Soft: 3, Hard: 2}}},
		"is above the node's own":        {Limits: []workload.Limit{{Name: "nofile", Soft: 1, Hard: own.Max + 1}}},
		"oom_score_adj -1 is not from 0": {OOMScoreAdj: -1},
		"oom_score_adj 1001 is not from": {OOMScoreAdj: 1001},
	} {
		spec := w.script("exit 0")
		spec.Process.Bounds = b
		err := w.s.Start(w.context(), spec)
		require.ErrorContains(t, err, want)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
	}
	spec := w.script("exit 0")
	spec.Process.Stdin = &workload.Mount{HostPath: filepath.Join(t.TempDir(), "none")}
	err := w.s.Start(w.context(), spec)
	require.Equal(t, abi.NotFound, abi.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "standard input ")
	require.Zero(t, w.left())
}

// TestAProcessUsesThePathsThatItIsGiven: nothing else of the node's files, and no process but its
// own.
func TestAProcessUsesThePathsThatItIsGiven(t *testing.T) {
	if err := process.CheckIsolation(workload.IsolationPaths); err != nil {
		t.Skip("this machine cannot restrict processes to paths: ", err)
	}
	w := newWorld(t)
	dir := t.TempDir()
	for _, sub := range []string{"read", "write", "create", "none"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, sub, "f"), []byte(sub), 0o666))
	}
	spec := w.script(`
		try() { name=$1; shift; "$@" >/dev/null 2>&1 && echo "$name yes" || echo "$name no"; }
		try read/read cat read/f
		try read/write sh -c 'echo x >>read/f'
		try read/empty sh -c ': >read/f'
		try read/create sh -c 'echo x >read/g'
		try write/read cat write/f
		try write/write sh -c 'echo x >>write/f'
		try write/create sh -c 'echo x >write/g'
		try write/remove rm write/f
		try create/create mkdir create/d
		try create/remove rm create/f
		try create/out sh -c 'ln read/f create/l'
		try none/list ls none
		try none/read cat none/f
		try link/read cat create/link
		try execute ./read/f
		try signal kill -0 $PPID
		try look cat /proc/$PPID/environ
		echo ready; [ "$1" = wait ] && sleep 1000`)
	require.NoError(t, os.Symlink("../none/f", filepath.Join(dir, "create/link")))
	p := spec.Process
	p.Isolation, p.Dir = workload.IsolationPaths, dir
	p.Paths = []workload.Path{
		{Path: "/usr", Rights: "rx"}, {Path: "/bin", Rights: "rx"}, {Path: "/lib", Rights: "rx"}, {Path: "/lib64", Rights: "rx"}, {Path: "/proc", Rights: "r"},
		{Path: "/dev/null", Rights: "rw"}, {Path: "/not/there", Rights: "rwcx"}, {Path: "/etc/hostname", Rights: "rc"},
		{Path: filepath.Join(dir, "read"), Rights: "r"}, {Path: filepath.Join(dir, "write"), Rights: "w"}, {Path: filepath.Join(dir, "create"), Rights: "rwc"},
	}
	require.NoError(t, w.s.Start(w.context(), spec))
	w.wait(spec)
	require.Equal(t, strings.Join([]string{
		"read/read yes", "read/write no", "read/empty no", "read/create no", "write/read no", "write/write yes", "write/create no", "write/remove no",
		"create/create yes", "create/remove yes", "create/out no", "none/list no", "none/read no", "link/read no", "execute no", "signal no", "look no", "ready", "",
	}, "\n"), w.stdoutOf(spec))

	held := w.script(`echo ready; sleep 1000`)
	held.Process.Isolation, held.Process.Paths, held.Process.Dir = p.Isolation, p.Paths, dir
	require.NoError(t, w.s.Start(w.context(), held))
	w.ready(held)
	var out strings.Builder
	exit, err := w.s.Exec(w.context(), held.ID, &workload.ExecSpec{Command: "sh", Args: []string{"-c", "exec 2>&1; cat read/f; cat none/f; kill $PPID"}, Stdout: &out})
	require.NoError(t, err)
	require.False(t, exit.Successful())
	require.True(t, strings.HasPrefix(out.String(), "read"), out.String())
	require.Contains(t, out.String(), "none/f: Permission denied")
	require.NoError(t, w.s.Stop(w.context(), held.ID, "SIGKILL", 0))
}

func TestPathsThatAreNoneAreRefused(t *testing.T) {
	if err := process.CheckIsolation(workload.IsolationPaths); err != nil {
		t.Skip("this machine cannot restrict processes to paths: ", err)
	}
	w := newWorld(t)
	for want, paths := range map[string][]workload.Path{
		"0 paths: there are from 1 to 160":   nil,
		"161 paths: there are from 1 to 160": make([]workload.Path, workload.MaxPaths+1),
		`path "usr" with the rights "r"`:     {{Path: "usr", Rights: "r"}},
		`path "/usr" with the rights ""`:     {{Path: "/usr"}},
		`path "/usr" with the rights "rd"`:   {{Path: "/usr", Rights: "rd"}},
	} {
		spec := w.script("exit 0")
		spec.Process.Isolation, spec.Process.Paths = workload.IsolationPaths, paths
		err := w.s.Start(w.context(), spec)
		require.ErrorContains(t, err, want)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
	}
}
