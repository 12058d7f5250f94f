package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

// on is a node of its own whose driver has a containerd.
func on(t *testing.T, e *enginetest.Containerd, settings string) *drivertest.Node {
	t.Helper()
	n := drivertest.New(t, func() driver.Driver { return &containerd{} })
	configure(t, n, e, settings)
	return n
}

func configure(t *testing.T, n *drivertest.Node, e *enginetest.Containerd, settings string) {
	t.Helper()
	require.NoError(t, n.Configure(`{"namespace": "`+e.Namespace+`"`+settings+`}`))
	go e.Proxy(n.Listen("/run/containerd/containerd.sock"))
}

// with is a task of the test image, with more of a configuration.
func with(more string, arguments ...string) string {
	return `{"image": "` + enginetest.Image + `", "command": "/program", "args": ["` + strings.Join(arguments, `", "`) + `"]` + more + `}`
}

func job(arguments ...string) string { return with("", arguments...) }

func started(t *testing.T, n *drivertest.Node, task *driver.TaskConfig) *driver.TaskHandle {
	t.Helper()
	handle, _, err := n.StartTask(task)
	require.NoError(t, err)
	return handle
}

// awaited is how a task ended.
func awaited(t *testing.T, n *drivertest.Node, task *driver.TaskConfig, handle *driver.TaskHandle) *driver.ExitResult {
	t.Helper()
	for {
		result, _, err := n.WaitTask(task, handle)
		if abi.IsRecoverable(err) { // the node asks again
			continue
		}
		require.NoError(t, err)
		require.NotNil(t, result)
		return result
	}
}

// ran runs a task to its end, and returns what it wrote and its code.
func ran(t *testing.T, n *drivertest.Node, task *driver.TaskConfig) (output string, code int32) {
	t.Helper()
	handle := started(t, n, task)
	before := len(n.Stdout())
	result := awaited(t, n, task, handle)
	output = n.Stdout()[before:]
	require.NoError(t, n.DestroyTask(task, handle, false))
	return output, result.ExitCode
}

func TestWithARealContainerd(t *testing.T) {
	e := enginetest.NewContainerd(t)
	for name, test := range map[string]func(*testing.T, *enginetest.Containerd){
		"a container's life":                    aContainersLife,
		"what a task says is in its container":  inTheContainer,
		"an image that is not unpacked":         aPackedImage,
		"networks":                              networks,
		"a privileged container":                aPrivilegedContainer,
		"stopping":                              stopping,
		"memory":                                memory,
		"a terminal":                            aTerminal,
		"an interrupted wait":                   anInterruptedWait,
		"containerd is restarted":               aRestart,
		"commands":                              commands,
		"a start whose answer was lost":         aLostStart,
		"a start that fails leaves nothing":     aFailedStart,
		"what has ended is ended a second time": twice,
		"an image that is missing":              aMissingImage,
		"the processes are gone without a word": lostProcesses,
	} {
		t.Run(name, func(t *testing.T) {
			defer e.RemoveAll(t) // what a test that fails has left is no other's
			test(t, e)
			require.Empty(t, e.Containers(t), "left over")
			require.Len(t, e.Control(t, "snapshots", "list"), 3+2, "the heading, and the layer of the image")
		})
	}
}

func aContainersLife(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Healthy, f.Health, f.Description)
	task := n.Task(job("print", `out\n`, `err\n`, "3"))
	handle := started(t, n, task)
	require.Equal(t, []string{containerID(task)}, e.Containers(t))
	result := awaited(t, n, task, handle)
	require.True(t, result.EqualVT(&driver.ExitResult{ExitCode: 3}), "%v", result)
	require.Equal(t, "out\n", n.Stdout())
	require.Equal(t, "err\n", n.Stderr())
	status, err := n.InspectTask(task, handle)
	require.NoError(t, err)
	require.Equal(t, driver.TaskExited, status.State)
	require.Equal(t, int32(3), status.ExitResult.ExitCode)
	require.Positive(t, status.StartedAtNs)
	require.GreaterOrEqual(t, status.CompletedAtNs, status.StartedAtNs)
	require.NoError(t, n.DestroyTask(task, handle, false))
	left, err := filepath.Glob(filepath.Join(task.Directories.Task, "output.*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func inTheContainer(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, `, "volumes": {"enabled": true}`)
	host := t.TempDir()
	require.NoError(t, os.WriteFile(host+"/file", []byte("of the machine"), 0o600))
	for name, c := range map[string]struct {
		config string
		change func(*driver.TaskConfig)
		want   string
	}{
		"the image's command":     {`{"image": "` + enginetest.Image + `"}`, nil, "by default"},
		"the image's environment": {job("env", "FROM"), nil, "image\n"},
		"the task's environment":  {job("env", "OTHER"), func(c *driver.TaskConfig) { c.Env = map[string]string{"OTHER": "task"} }, "task\n"},
		"an entrypoint":           {`{"image": "` + enginetest.Image + `", "entrypoint": ["/program", "env"], "args": ["FROM"]}`, nil, "image\n"},
		"the host's name":         {with(`, "hostname": "h1"`, "cat", "/proc/sys/kernel/hostname"), nil, "h1\n"},
		"a bind mount":            {with(`, "mounts": [{"source": "`+host+`", "target": "/m"}]`, "cat", "/m/file"), nil, "of the machine"},
		"a mount of its own":      {with(`, "mounts": [{"source": "local", "target": "/m"}]`, "cat", "/m/file"), writeLocal, "of the task"},
		"local":                   {job("cat", "/local/file"), writeLocal, "of the task"},
		"the job's volume": {job("cat", "/v/file"), func(c *driver.TaskConfig) {
			c.Mounts = []*wasmnodev1.Mount{{HostPath: host, TaskPath: "/v", ReadOnly: true}}
		}, "of the machine"},
		"hosts":       {with(`, "hostname": "h1", "extra_hosts": ["a:10.0.0.1"]`, "cat", "/etc/hosts"), nil, "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 h1\n10.0.0.1 a\n"},
		"a parameter": {with(`, "sysctl": {"net.core.somaxconn": "77"}`, "cat", "/proc/sys/net/core/somaxconn"), nil, "77\n"},
	} {
		t.Run(name, func(t *testing.T) {
			task := n.Task(c.config)
			if c.change != nil {
				c.change(task)
			}
			output, code := ran(t, n, task)
			require.Zero(t, code, n.Stderr())
			require.Equal(t, c.want, output)
		})
	}
	for says, config := range map[string]string{
		"read-only file system": with(`, "readonly_rootfs": true`, "write", "/x", "y"),
		"no such file":          job("cat", "/m/file"),
	} {
		before := len(n.Stderr())
		_, code := ran(t, n, n.Task(config))
		require.Equal(t, int32(1), code, config)
		require.Contains(t, n.Stderr()[before:], says)
	}
	task := n.Task(job("write", "/alloc/made", "by a container"))
	_, code := ran(t, n, task)
	require.Zero(t, code, n.Stderr())
	content, err := os.ReadFile(filepath.Join(task.Directories.Shared, "made"))
	require.NoError(t, err)
	require.Equal(t, "by a container", string(content))
}

func writeLocal(c *driver.TaskConfig) {
	_ = os.WriteFile(filepath.Join(c.Directories.Local, "file"), []byte("of the task"), 0o600)
}

func networks(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	const link = "/proc/self/ns/net"
	machines, err := os.Readlink(link)
	require.NoError(t, err)
	group := ownNetwork(t)
	groups, err := os.Readlink(group)
	require.NoError(t, err)
	output, _ := ran(t, n, n.Task(with(`, "host_network": true`, "link", link)))
	require.Equal(t, machines+"\n", output)
	task := n.Task(job("link", link))
	task.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: group, Ip: "10.0.0.9"}
	output, _ = ran(t, n, task)
	require.Equal(t, groups+"\n", output)
	output, _ = ran(t, n, n.Task(job("link", link)))
	require.NotContains(t, []string{machines + "\n", groups + "\n"}, output)
}

// ownNetwork makes a network's namespace, which is there until the test ends: that of a process.
func ownNetwork(t *testing.T) (path string) {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net"
}

func aPrivilegedContainer(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, `, "allow_privileged": true`)
	for config, code := range map[string]int32{ // the root of a machine that is virtual may have less than all
		with(`, "privileged": true, "cap_drop": ["sys_resource"]`, "write", "/proc/sys/kernel/domainname", "x"): 0,
		job("write", "/proc/sys/kernel/domainname", "x"):                                                        1,
	} {
		_, got := ran(t, n, n.Task(config))
		require.Equal(t, code, got, "%s: %s", config, n.Stderr())
	}
}

func stopping(t *testing.T, e *enginetest.Containerd) {
	for program, c := range map[string]struct {
		signal string
		code   int32
		output string
	}{
		"wait":   {"", 0, "ready\ngot hangup\ngot terminated\n"},
		"ignore": {"SIGTERM", 137, "ready\n"},
	} {
		n := on(t, e, "")
		task := n.Task(job(program))
		handle := started(t, n, task)
		ended := make(chan *driver.ExitResult, 1)
		go func() { ended <- awaited(t, n, task, handle) }()
		require.Eventually(t, func() bool { return n.Stdout() == "ready\n" }, time.Minute, time.Millisecond, program)
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(n.DestroyTask(task, handle, false)))
		status, err := n.InspectTask(task, handle)
		require.NoError(t, err)
		require.Equal(t, driver.TaskRunning, status.State)
		if program == "wait" {
			_, err := n.SignalTask(task, handle, "SIGHUP")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return n.Stdout() == "ready\ngot hangup\n" }, time.Minute, time.Millisecond)
		}
		_, err = n.SignalTask(task, handle, "SIGNONE")
		require.ErrorContains(t, err, `there is no signal "SIGNONE"`)
		figures, err := n.TaskStats(task, handle)
		require.NoError(t, err)
		require.Positive(t, *figures.CpuTotalNs)
		require.Positive(t, *figures.MemoryRssBytes)
		timeout := time.Minute
		if program == "ignore" {
			timeout = 50 * time.Millisecond
		}
		_, err = n.StopTask(task, handle, c.signal, timeout)
		require.NoError(t, err)
		result := <-ended
		require.Equal(t, c.code, result.ExitCode, program)
		require.False(t, result.OomKilled)
		require.Equal(t, c.output, n.Stdout())
		require.NoError(t, n.DestroyTask(task, handle, false))
	}
}

func memory(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("hog"))
	task.Resources.MemoryBytes = 32 << 20
	handle := started(t, n, task)
	result := awaited(t, n, task, handle)
	require.True(t, result.EqualVT(&driver.ExitResult{ExitCode: 137, OomKilled: true, Error: "OOM Killed"}), "%v", result)
	require.True(t, result.EqualVT(awaited(t, n, task, handle)), "it is written down")
	require.NoError(t, n.DestroyTask(task, handle, false))
}

func aTerminal(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	output, code := ran(t, n, n.Task(with(`, "tty": true`, "print", `out\n`, `err\n`, "0")))
	require.Zero(t, code)
	require.Equal(t, "out\r\nerr\r\n", output)
}

// requireCounted requires the lines of the program's "count", each once.
func requireCounted(t *testing.T, text, stream string, to int) {
	t.Helper()
	var want strings.Builder
	for i := 1; i <= to; i++ {
		want.WriteString(stream + " " + strconv.Itoa(i) + "\n")
	}
	require.True(t, text == want.String(), "%d bytes, want %d", len(text), want.Len())
}

// A wait whose instance is lost in the middle goes on where it was.
func anInterruptedWait(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("count", "3000", "1000", "end"))
	handle := started(t, n, task)
	for range 3 {
		require.Zero(t, awaited(t, n, task, handle).ExitCode)
	}
	requireCounted(t, n.Stdout(), "o", 3000)
	requireCounted(t, n.Stderr(), "e", 3000)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

// What runs goes on when containerd is restarted, and so does its output.
func aRestart(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("count", "2000", "20", "end"))
	handle := started(t, n, task)
	ended := make(chan *driver.ExitResult, 1)
	go func() { ended <- awaited(t, n, task, handle) }()
	require.Eventually(t, func() bool { return n.Stdout() != "" }, time.Minute, time.Millisecond)
	e.Stop()
	_, err := n.InspectTask(task, handle)
	require.True(t, abi.IsRecoverable(err), "%v", err)
	require.True(t, abi.IsRecoverable(n.DestroyTask(task, handle, true)))
	_, err = n.RecoverTask(task, handle)
	require.True(t, abi.IsRecoverable(err), "%v", err)
	e.Start()
	_, err = n.RecoverTask(task, handle)
	require.NoError(t, err)
	require.Zero(t, (<-ended).ExitCode)
	requireCounted(t, n.Stdout(), "o", 2000)
	requireCounted(t, n.Stderr(), "e", 2000)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

func commands(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("wait"))
	task.Env = map[string]string{"OTHER": "task"}
	handle := started(t, n, task)
	run := func(c *drivertest.Command) (string, string, *driver.ExitResult, error) {
		var out, err strings.Builder
		c.Stdout, c.Stderr = &out, &err
		result, fault := n.Exec(task, handle, c)
		return out.String(), err.String(), result, fault
	}
	out, fault, result, err := run(&drivertest.Command{Args: []string{"/program", "print", "out", "err", "3"}})
	require.NoError(t, err)
	require.Equal(t, []string{"out", "err"}, []string{out, fault})
	require.Equal(t, int32(3), result.ExitCode)
	out, _, _, err = run(&drivertest.Command{Args: []string{"/program", "env", "OTHER"}})
	require.NoError(t, err)
	require.Equal(t, "task\n", out)
	out, _, _, err = run(&drivertest.Command{Args: []string{"/program", "count", "5000", "2500", "end"}})
	require.NoError(t, err)
	requireCounted(t, out, "o", 5000)

	_, _, _, err = run(&drivertest.Command{Args: []string{"/program", "wait"}, Timeout: 50 * time.Millisecond})
	require.ErrorContains(t, err, "the command did not end within 50ms, and was killed")
	_, _, _, err = run(&drivertest.Command{Args: []string{"/nothing"}})
	require.ErrorContains(t, err, "/nothing")
	_, _, _, err = run(&drivertest.Command{Args: []string{"/program", "wait"}, Stdin: strings.NewReader("x")})
	require.ErrorContains(t, err, "has no input")
	gone, breaks := io.Pipe()
	_ = breaks.CloseWithError(errors.New("gone"))
	_, _, _, err = run(&drivertest.Command{Args: []string{"/program", "wait"}, Stdin: gone})
	require.Error(t, err)

	sizes := make(chan driver.TerminalSize, 1)
	open, typed := io.Pipe()
	defer func() { _ = typed.Close() }()
	var screen screen
	ended := make(chan error, 1)
	go func() {
		_, err := n.Exec(task, handle, &drivertest.Command{
			Args: []string{"/program", "terminal"}, TTY: true, Size: driver.TerminalSize{Rows: 31, Columns: 101}, Sizes: sizes, Stdin: open, Stdout: &screen,
		})
		ended <- err
	}()
	screen.await(t, "size 31x101\r\n")
	sizes <- driver.TerminalSize{Rows: 32, Columns: 102}
	screen.await(t, "size 32x102\r\n")
	_, _ = io.WriteString(typed, "x")
	require.ErrorContains(t, <-ended, "has no input")
	require.Len(t, e.Control(t, "tasks", "ps", containerID(task)), 2+2, "a heading, and the first process only")

	require.NoError(t, n.DestroyTask(task, handle, true))
	_, _, _, err = run(&drivertest.Command{Args: []string{"/program", "wait"}})
	require.Equal(t, abi.NotFound, abi.CodeOf(err), "%v", err)
}

// aLostStart is what an agent finds that was killed before it had the answer.
func aLostStart(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("wait"))
	lost := started(t, n, task)
	unknown := &driver.TaskHandle{Version: 1}
	found, err := n.RecoverTask(task, unknown)
	require.NoError(t, err)
	require.True(t, found.EqualVT(lost), "%v", found)
	second := started(t, n, task)
	require.Len(t, e.Containers(t), 1, "a start of the same task takes its place")
	again := n.Task(job("wait"))
	again.AllocId, again.Name = task.AllocId, task.Name
	third := started(t, n, again)
	require.Equal(t, []string{containerID(again)}, e.Containers(t), "and so does the next invocation")
	_, err = n.RecoverTask(task, second)
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	require.NoError(t, n.DestroyTask(task, second, true))
	require.Len(t, e.Containers(t), 1)
	require.NoError(t, n.DestroyTask(again, unknown, true))
	require.Empty(t, e.Containers(t))
	require.NoError(t, n.DestroyTask(again, third, false))
}

func aFailedStart(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	for says, config := range map[string]string{
		"/nothing":     `{"image": "` + enginetest.Image + `", "command": "/nothing"}`,
		"sysctl":       with(`, "sysctl": {"kernel.nothing": "1"}`, "wait"),
		"is not there": with(`, "mounts": [{"source": "local/none", "target": "/m"}]`, "wait"),
	} {
		_, _, err := n.StartTask(n.Task(config))
		require.ErrorContains(t, err, says)
		require.False(t, abi.IsRecoverable(err), "%v", err)
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, e.Containers(t))
	}
	task := n.Task(with(`, "mounts": [{"source": "local/link", "target": "/m"}]`, "wait"))
	require.NoError(t, os.Symlink("/etc", filepath.Join(task.Directories.Local, "link")))
	_, _, err := n.StartTask(task)
	require.ErrorContains(t, err, "is reached by a link")
}

func aMissingImage(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	_, _, err := n.StartTask(n.Task(`{"image": "none:1"}`))
	require.EqualError(t, err, "containerd has no image docker.io/library/none:1 in the namespace "+e.Namespace+
		", and the driver pulls none: ctr -n "+e.Namespace+" images pull docker.io/library/none:1 does, or images import with a file")
	require.False(t, abi.IsRecoverable(err))
}

func aPackedImage(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	e.Forget(t, enginetest.Image)
	require.Len(t, e.Control(t, "snapshots", "list"), 3, "the heading")
	e.Import(t, "--no-unpack")
	for range 2 {
		output, code := ran(t, n, n.Task(job("print", "out", "", "0")))
		require.Zero(t, code)
		require.Equal(t, "out", output)
	}
	require.Len(t, e.Control(t, "leases", "list"), 4, "the heading")
	other := `", "snapshotter": "native`
	require.NoError(t, n.Configure(`{"namespace": "`+e.Namespace+other+`"}`))
	output, _ := ran(t, n, n.Task(job("print", "out", "", "0")))
	require.Equal(t, "out", output)
}

func twice(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("print", "", "", "0"))
	handle := started(t, n, task)
	require.Zero(t, awaited(t, n, task, handle).ExitCode)
	_, err := n.RecoverTask(task, handle)
	require.NoError(t, err, "it says how it ended")
	_, err = n.StopTask(task, handle, "SIGTERM", time.Minute)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, n.DestroyTask(task, handle, false))
	}
	_, err = n.StopTask(task, handle, "SIGTERM", time.Minute)
	require.NoError(t, err)
	_, _, err = n.WaitTask(task, handle)
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	_, err = n.SignalTask(task, handle, "SIGHUP")
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
}

// As after the machine was restarted: there is a container, and nobody knows how it ended.
func lostProcesses(t *testing.T, e *enginetest.Containerd) {
	n := on(t, e, "")
	task := n.Task(job("wait"))
	handle := started(t, n, task)
	e.Control(t, "tasks", "rm", "--force", containerID(task))
	_, err := n.RecoverTask(task, handle)
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	_, _, err = n.WaitTask(task, handle)
	require.ErrorContains(t, err, "how they ended is not known")
	require.NoError(t, n.DestroyTask(task, handle, false))
}

// screen is what a terminal shows.
type screen struct {
	mu   sync.Mutex
	text string
}

// Write implements [io.Writer].
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(b)
	return len(b), nil
}

func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.text, text)
	}, time.Minute, time.Millisecond, "waiting for %q", text)
}
