package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// on is a node of its own whose driver has an engine.
func on(t *testing.T, e *enginetest.Engine) *drivertest.Node {
	t.Helper()
	n := newNode(t, "")
	go e.Proxy(n.Listen("/run/docker.sock"))
	return n
}

// job is a task of the test image.
func job(arguments ...string) string {
	return `{"image": "` + enginetest.Image + `", "command": "/program", "network_mode": "host", "args": ["` + strings.Join(arguments, `", "`) + `"]}`
}

// started is a task that has said that it is ready.
func started(t *testing.T, n *drivertest.Node, task *driver.TaskConfig) *driver.TaskHandle {
	t.Helper()
	handle, _, err := n.StartTask(task)
	require.NoError(t, err)
	return handle
}

// waited is how a task ended. One that does not is ended, so that the engine's log is told with the failure.
func waited(t *testing.T, n *drivertest.Node, task *driver.TaskConfig, handle *driver.TaskHandle) *driver.ExitResult {
	t.Helper()
	late := time.AfterFunc(5*time.Minute, func() {
		t.Error("the task does not end, or the driver does not see it; so far it said " + strconv.Quote(n.Stdout()))
		_ = n.DestroyTask(task, handle, true)
	})
	defer late.Stop()
	for {
		result, _, err := n.WaitTask(task, handle)
		require.NoError(t, err)
		if result != nil {
			return result
		}
	}
}

func TestWithARealEngine(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		for name, test := range map[string]func(*testing.T, *enginetest.Engine){
			"a container's life":                    aContainersLife,
			"stopping":                              stopping,
			"directories":                           directories,
			"limits":                                limits,
			"an image in an archive":                anImageInAnArchive,
			"a group's network":                     aGroupsNetwork,
			"a dangling container":                  aDanglingContainer,
			"an interrupted wait":                   anInterruptedWait,
			"a terminal":                            aTerminal,
			"a command with a terminal":             aCommandWithATerminal,
			"a command's streams":                   aCommandsStreams,
			"an image that is missing":              anImageThatIsMissing,
			"a start whose answer was lost":         aLostStart,
			"a name that somebody else has":         aForeignName,
			"what has ended is ended a second time": twice,
		} {
			t.Run(name, func(t *testing.T) {
				defer e.RemoveAll(t) // what a test that fails has left is no other's
				test(t, e)
				require.Empty(t, e.Containers(t), "left over")
			})
		}
	})
}

func aContainersLife(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Healthy, f.Health, f.Description)
	task := n.Task(job("print", `out\n`, `err\n`, "3"))
	handle := started(t, n, task)
	containers := e.Containers(t)
	require.Len(t, containers, 1)
	require.Equal(t, []string{"/task-" + task.AllocId}, containers[0].Names)
	require.Equal(t, task.Id, containers[0].Labels[labelTask])
	result := waited(t, n, task, handle)
	require.True(t, result.EqualVT(&driver.ExitResult{ExitCode: 3, Error: "Docker container exited with non-zero exit code: 3"}), "%v", result)
	require.Equal(t, "out\n", n.Stdout())
	require.Equal(t, "err\n", n.Stderr())
	status, err := n.InspectTask(task, handle)
	require.NoError(t, err)
	require.Equal(t, driver.TaskExited, status.State)
	require.Positive(t, status.StartedAtNs)
	require.GreaterOrEqual(t, status.CompletedAtNs, status.StartedAtNs)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

func anImageInAnArchive(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	name := "localhost/archived:1"
	e.Tag(t, enginetest.Image, name)
	archive := e.Save(t, name)
	e.Forget(t, name)
	config := func(image, file string) string {
		return `{"image": "` + image + `", "load": "` + file + `", "network_mode": "host", "command": "/program", "args": ["print", "loaded", "", "0"]}`
	}
	start := func(text string, content []byte) (*driver.TaskConfig, *driver.TaskHandle, error) {
		task := n.Task(text)
		if content != nil {
			require.NoError(t, os.WriteFile(filepath.Join(task.Directories.Local, "image.tar"), content, 0o600))
		}
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(task.Directories.Local, "link")))
		handle, _, err := n.StartTask(task)
		return task, handle, err
	}
	task, _, err := start(config(name, "image.tar"), nil)
	require.EqualError(t, err, "unable to open image archive: open "+task.Directories.Local+"/image.tar: no such file or directory")
	for says, c := range map[string]struct{ image, file, content string }{
		"unable to open image archive":   {"localhost/none:1", "link", ""},
		"Failed to load image archive":   {"localhost/none:1", "image.tar", "no archive"},
		"has no image localhost/other:1": {"localhost/other:1", "image.tar", string(archive)},
	} {
		_, _, err := start(config(c.image, c.file), []byte(c.content))
		require.ErrorContains(t, err, says)
	}
	e.Forget(t, name)
	task, handle, err := start(config(name, "image.tar"), archive)
	require.NoError(t, err)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	require.Equal(t, "loaded", n.Stdout())
	require.NoError(t, n.DestroyTask(task, handle, false))
	require.NoError(t, err)
	e.Forget(t, name)
}

func TestAnImageIsPulledFromARegistryThatAsksWho(t *testing.T) {
	enginetest.Each(t, aPullFromARegistryThatAsksWho)
}

func aPullFromARegistryThatAsksWho(t *testing.T, e *enginetest.Engine) {
	name := enginetest.Registry(t) + "/some/image"
	e.Publish(t, enginetest.Image, name)
	n := on(t, e)
	config := func(image, password string) string {
		return `{"image": "` + image + `", "auth": {"username": "` + enginetest.User + `", "password": "` + password + `"},
			"network_mode": "host", "command": "/program", "args": ["print", "pulled", "", "0"]}`
	}
	for _, text := range []string{`{"image": "` + name + `:1"}`, config(name+":1", "wrong"), config(name+":2", enginetest.Password)} {
		_, _, err := n.StartTask(n.Task(text))
		require.ErrorContains(t, err, "Failed to pull `"+name)
		require.False(t, abi.IsRecoverable(err), "%v: asking again does not help", err)
		require.NotContains(t, err.Error(), "\n")
	}
	task := n.Task(config(name+":1", enginetest.Password))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	require.Equal(t, "pulled", n.Stdout())
	require.NoError(t, n.DestroyTask(task, handle, false))
	require.Len(t, n.Events(), 4)

	e.Forget(t, name+":1")
	file := dockerConfig(t, `{"auths": {"`+strings.Split(name, "/")[0]+`": {"username": "`+enginetest.User+`", "password": "`+enginetest.Password+`"}}}`)
	require.NoError(t, n.Configure(`{"auth": {"config": "`+file+`"}}`))
	task = n.Task(`{"image": "` + name + `:1", "network_mode": "host", "command": "/program", "args": ["print", "", "", "0"]}`)
	handle = started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	require.NoError(t, n.DestroyTask(task, handle, false))
	task = n.Task(config(name+":1", "wrong")) // it is there, so nobody is asked
	handle = started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

func TestCompiledWithARealEngine(t *testing.T) { enginetest.Each(t, compiled) }

func compiled(t *testing.T, e *enginetest.Engine) {
	n := drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/docker"), nil)
	require.NoError(t, n.Configure(""))
	go e.Proxy(n.Listen("/run/docker.sock"))
	task := n.Task(job("count", "2000", "1000", "end"))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	requireCounted(t, n.Stdout(), "o", 2000)
	requireCounted(t, n.Stderr(), "e", 2000)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

// An image goes when no container has it any more, and not while it has another name.
func TestAnImageThatNobodyHasIsRemoved(t *testing.T) { enginetest.Each(t, anImageThatNobodyHas) }

func anImageThatNobodyHas(t *testing.T, e *enginetest.Engine) {
	if e.Name == "podman" && os.Getenv("WASMNODE_ENGINES") == "" {
		t.Skip("make check-full runs it, with WASMNODE_ENGINES=1: Podman takes a second or more to tell of itself, each time")
	}
	const other = "localhost/wasmnode-other:1"
	e.Tag(t, enginetest.Image, other)
	n := newNode(t, `{"gc": {"image_delay": "1ms", "dangling_containers": {"enabled": false}}}`)
	go e.Proxy(n.Listen("/run/docker.sock"))
	looks := func(times int) {
		t.Helper()
		for range times {
			_, err := n.Fingerprint()
			require.NoError(t, err)
			time.Sleep(2 * time.Millisecond) // longer than image_delay
		}
	}
	run := func(during func()) {
		t.Helper()
		task := n.Task(job("wait"))
		handle := started(t, n, task)
		during()
		require.NoError(t, n.DestroyTask(task, handle, true))
	}
	run(func() {
		looks(3)
		require.Len(t, n.Kept(), 1)
	})
	looks(1)
	run(func() { looks(3) }) // one has it again
	require.Len(t, n.Kept(), 1)
	looks(3)
	require.Empty(t, n.Kept())
	require.True(t, e.Has(enginetest.Image), "it has two names")
	run(func() { e.Forget(t, other) })
	looks(3)
	require.False(t, e.Has(enginetest.Image))
	_, _, err := n.StartTask(n.Task(job("wait")))
	require.ErrorContains(t, err, "Failed to pull")
}

func TestAContainerMayBeKept(t *testing.T) { enginetest.Each(t, aContainerThatIsKept) }

func aContainerThatIsKept(t *testing.T, e *enginetest.Engine) {
	n := newNode(t, `{"gc": {"container": false, "image": false, "dangling_containers": {"enabled": false}}}`)
	go e.Proxy(n.Listen("/run/docker.sock"))
	task := n.Task(job("wait"))
	handle := started(t, n, task)
	for range 2 {
		require.NoError(t, n.DestroyTask(task, handle, true))
		require.Equal(t, "exited", e.Containers(t)[0].State)
	}
	handle = started(t, n, task)
	require.Len(t, e.Containers(t), 1, "the next one takes its place")
	require.NoError(t, n.DestroyTask(task, handle, true))
	require.Empty(t, n.Kept())
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

func stopping(t *testing.T, e *enginetest.Engine) {
	for program, c := range map[string]struct {
		signal string
		code   int32
		output string
	}{
		"wait":   {"", 0, "ready\ngot hangup\ngot terminated\n"},
		"ignore": {"SIGTERM", 137, "ready\n"},
	} {
		n := on(t, e)
		task := n.Task(job(program))
		handle := started(t, n, task)
		ended := make(chan *driver.ExitResult, 1)
		go func() { ended <- waited(t, n, task, handle) }()
		require.Eventually(t, func() bool { return n.Stdout() == "ready\n" }, time.Minute, time.Millisecond, program)
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(n.DestroyTask(task, handle, false)))
		if program == "wait" {
			_, err := n.SignalTask(task, handle, "SIGHUP")
			require.NoError(t, err)
		}
		_, err := n.TaskStats(task, handle)
		require.NoError(t, err)
		command, err := n.ExecTask(task, handle, []string{"/program", "print", "out", "err", "3"}, time.Minute)
		require.NoError(t, err)
		require.Equal(t, "out", string(command.Stdout))
		require.Equal(t, "err", string(command.Stderr))
		require.Equal(t, int32(3), command.Result.ExitCode)
		timeout := time.Minute
		if program == "ignore" {
			timeout = 50 * time.Millisecond
		}
		_, err = n.StopTask(task, handle, c.signal, timeout)
		require.NoError(t, err)
		require.Equal(t, c.code, (<-ended).ExitCode, program)
		require.Equal(t, c.output, n.Stdout())
		require.NoError(t, n.DestroyTask(task, handle, false))
	}
}

func directories(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("write", "/local/made", "by a container"))
	require.NoError(t, os.Chmod(task.Directories.Local, 0o777))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode, n.Stderr())
	content, err := os.ReadFile(filepath.Join(task.Directories.Local, "made"))
	require.NoError(t, err)
	require.Equal(t, "by a container", string(content))
	require.NoError(t, n.DestroyTask(task, handle, false))
}

// An engine of version 20.10 tells once in some dozens that a container was killed for no reason:
// its end was known before the cause.
func limits(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	for range 10 {
		task := n.Task(job("hog"))
		task.Resources.MemoryBytes = 32 << 20
		handle := started(t, n, task)
		result := waited(t, n, task, handle)
		require.Equal(t, int32(137), result.ExitCode)
		oom := e.OOMKilled(t, "task-"+task.AllocId)
		require.Equal(t, oom, result.OomKilled)
		require.NoError(t, n.DestroyTask(task, handle, true))
		if e.Name == "podman" { // it does not say, where cgroups are of version 1
			return
		}
		if oom {
			require.Equal(t, "OOM Killed", result.Error)
			return
		}
	}
	require.Fail(t, "the engine never tells that a container was killed for its memory")
}

// anInterruptedWait is one whose instance is lost in the middle, twice.
func anInterruptedWait(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("count", "3000", "1000", "end"))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	for range 2 { // it goes on where it was: there is no more
		require.Zero(t, waited(t, n, task, handle).ExitCode)
	}
	requireCounted(t, n.Stdout(), "o", 3000)
	requireCounted(t, n.Stderr(), "e", 3000)
	require.NoError(t, n.DestroyTask(task, handle, false))
}

func aTerminal(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(strings.Replace(job("print", `out\n`, `err\n`, "0"), "{", `{"tty": true, `, 1))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	require.Equal(t, "out\r\nerr\r\n", n.Stdout())
	require.NoError(t, n.DestroyTask(task, handle, false))
}

// typist types at a terminal what a command's output asks for.
type typist struct {
	*io.PipeReader // the command's input
	keys           *io.PipeWriter
	mu             sync.Mutex
	output         string
}

func newTypist() *typist {
	t := &typist{}
	t.PipeReader, t.keys = io.Pipe()
	return t
}

// Write implements [io.Writer].
func (t *typist) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output += string(b)
	return len(b), nil
}

func (t *typist) await(test *testing.T, text string) {
	test.Helper()
	require.Eventually(test, func() bool { return strings.Contains(t.String(), text) }, time.Minute, time.Millisecond, "waiting for %q, have %q", text, t)
}

// String is the output so far.
func (t *typist) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output
}

func (t *typist) types(test *testing.T, text string) {
	test.Helper()
	_, err := io.WriteString(t.keys, text)
	require.NoError(test, err)
}

func aCommandWithATerminal(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("wait"))
	handle := started(t, n, task)
	for name, end := range map[string]struct {
		with func(*testing.T, *typist)
		code int32
	}{
		"a code":  {func(t *testing.T, at *typist) { at.types(t, "exit 5\n") }, 5},
		"its end": {func(t *testing.T, at *typist) { _ = at.keys.Close() }, 9},
	} {
		t.Run(name, func(t *testing.T) {
			at, sizes, ended := newTypist(), make(chan driver.TerminalSize), make(chan *driver.ExitResult, 1)
			go func() {
				result, err := n.Exec(task, handle, &drivertest.Command{
					Args: []string{"/program", "terminal"}, TTY: true, Size: driver.TerminalSize{Rows: 31, Columns: 101}, Sizes: sizes, Stdin: at, Stdout: at,
				})
				assert.NoError(t, err)
				ended <- result
			}()
			at.await(t, "size 31x101\r\n")
			require.Eventually(t, func() bool { // of two sizes that come at once, Podman loses one now and then
				sizes <- driver.TerminalSize{Rows: 32, Columns: 102}
				return strings.Contains(at.String(), "size 32x102\r\n")
			}, time.Minute, 100*time.Millisecond, "have %q", at)
			at.types(t, "hello\n")
			at.await(t, "read hello\r\n")
			end.with(t, at)
			require.Equal(t, end.code, (<-ended).GetExitCode())
		})
	}
	require.NoError(t, n.DestroyTask(task, handle, true))
}

func aCommandsStreams(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("wait"))
	handle := started(t, n, task)
	input := strings.Repeat("0123456789abcdef", 64<<10)
	var stdout strings.Builder
	result, err := n.Exec(task, handle, &drivertest.Command{Args: []string{"/program", "echo"}, Stdin: strings.NewReader(input), Stdout: &stdout})
	require.NoError(t, err)
	require.Zero(t, result.ExitCode)
	require.True(t, stdout.String() == input, "%d bytes come back, want %d", stdout.Len(), len(input))
	// Nobody waits for this one any more.
	gone, breaks := io.Pipe()
	_ = breaks.CloseWithError(errors.New("gone"))
	_, err = n.Exec(task, handle, &drivertest.Command{Args: []string{"/program", "echo"}, Stdin: gone})
	require.Error(t, err)
	for _, tty := range []bool{false, true} {
		result, err = n.Exec(task, handle, &drivertest.Command{Args: []string{"/nothing"}, TTY: tty, Stdout: &stdout, Stderr: &stdout})
		if err == nil {
			require.NotZero(t, result.ExitCode)
			err = errors.New(stdout.String())
		}
		require.ErrorContains(t, err, "/nothing")
	}
	require.NoError(t, n.DestroyTask(task, handle, true))
}

func anImageThatIsMissing(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	_, _, err := n.StartTask(n.Task(`{"image": "127.0.0.1:1/none:1"}`))
	require.ErrorContains(t, err, "Failed to pull `127.0.0.1:1/none:1`: ")
	require.NotContains(t, err.Error(), "\n")
	require.True(t, abi.IsRecoverable(err), "%v: a registry that does not answer may do so later", err)
	require.Equal(t, "Downloading image", n.Events()[0].Message)
}

// aLostStart is what an agent finds that was killed before it had the answer.
func aLostStart(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("wait"))
	lost := started(t, n, task)
	unknown := &driver.TaskHandle{Version: 1}
	found, err := n.RecoverTask(task, unknown)
	require.NoError(t, err)
	require.True(t, found.EqualVT(lost), "%v", found)
	// A start of the same task takes its place.
	second := started(t, n, task)
	require.False(t, second.EqualVT(lost))
	require.Len(t, e.Containers(t), 1)
	_, err = n.RecoverTask(task, lost)
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	require.NoError(t, n.DestroyTask(task, unknown, true))
	require.NoError(t, n.DestroyTask(task, second, false))
}

func aForeignName(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("wait"))
	handle := started(t, n, task)
	other := task.CloneVT()
	other.Name, other.AllocId = "task-"+task.AllocId[:8], task.AllocId[9:]
	require.Equal(t, containerName(task), containerName(other))
	_, _, err := n.StartTask(other)
	require.ErrorContains(t, err, "a container that is not this allocation's has the name")
	require.NoError(t, n.DestroyTask(task, handle, true))
}

func twice(t *testing.T, e *enginetest.Engine) {
	n := on(t, e)
	task := n.Task(job("print", "", "", "0"))
	handle := started(t, n, task)
	require.Zero(t, waited(t, n, task, handle).ExitCode)
	_, err := n.StopTask(task, handle, "SIGTERM", time.Minute)
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
