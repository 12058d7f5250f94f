package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// containerd owns the containers, so the driver has every operation.
var (
	_ driver.TaskRecoverer = (*containerd)(nil)
	_ driver.TaskWaiter    = (*containerd)(nil)
	_ driver.TaskStopper   = (*containerd)(nil)
	_ driver.TaskSignaler  = (*containerd)(nil)
	_ driver.TaskDestroyer = (*containerd)(nil)
	_ driver.TaskInspector = (*containerd)(nil)
	_ driver.TaskStatser   = (*containerd)(nil)
)

// Labels of a container: whose it is, and how it ended.
const (
	labelAlloc = "wasmnode.alloc_id"
	labelName  = "wasmnode.task_name"
	labelTask  = "wasmnode.task_id"
	labelExit  = "wasmnode.exit"
)

// containerID is that of an invocation of a task. It has the beginnings of what a person looks
// for, and is short enough for containerd.
func containerID(t *driver.TaskConfig) string {
	var name []byte
	for _, r := range []byte(t.Name) {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			name = append(name, r)
		} else if n := len(name); n > 0 && name[n-1] != '-' {
			name = append(name, '-')
		}
	}
	sum := sha256.Sum256([]byte(t.Id))
	parts := []string{strings.Trim(string(name[:min(len(name), 40)]), "-"), t.AllocId[:min(len(t.AllocId), 8)], hex.EncodeToString(sum[:6])}
	return strings.TrimLeft(strings.Join(parts, "-"), "-")
}

// handle has the ID of a container. One without is that of a start whose answer was lost.
func handle(id string) *driver.TaskHandle {
	return &driver.TaskHandle{Version: 1, DriverState: []byte(id)}
}

func idOf(h *driver.TaskHandle) (string, error) {
	if h.Version != 1 {
		return "", abi.NewError(abi.FailedPrecondition, "a handle of version "+strconv.Itoa(int(h.Version)))
	}
	return string(h.DriverState), nil
}

// of opens a connection for an operation about a task, and reads which container is meant.
func (d *containerd) of(ctx context.Context, h *driver.TaskHandle) (*client, string, error) {
	id, err := idOf(h)
	if err != nil {
		return nil, "", err
	}
	c, err := d.engine.open(ctx)
	return c, id, err
}

// StartTask creates a container and starts it. What an earlier start of the same task has left
// is removed before.
func (d *containerd) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.start)
	defer cancel()
	config, err := tasks.Decode(t.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	c, err := d.engine.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	b := &builder{d: d, t: t, c: &config, id: containerID(t)}
	if err := d.start(ctx, c, b); err != nil {
		d.discard(ctx, b.id)
		return nil, nil, err
	}
	return handle(b.id), nil, nil
}

// discard removes what a start that failed has made, on a connection that did not fail with it.
// What it cannot remove, the next start does.
func (d *containerd) discard(ctx context.Context, id string) {
	c, err := d.engine.open(ctx)
	if err != nil {
		return
	}
	defer c.close()
	_ = c.remove(ctx, id)
}

func (d *containerd) start(ctx context.Context, c *client, b *builder) (err error) {
	if err = c.provideNamespace(); err != nil {
		return err
	}
	if b.image, err = c.provideImage(ctx, b.c.image); err != nil {
		return err
	}
	spec, err := b.specification()
	if err != nil {
		return err
	}
	for _, full := range b.local {
		if err = checkLinks(ctx, b.t.Directories, full); err != nil {
			return err
		}
	}
	if err = c.removeAll(ctx, labelAlloc, b.t.AllocId, labelName, b.t.Name); err != nil {
		return saying("what an earlier start has left is not removed", err)
	}
	if err = b.writeHosts(ctx); err != nil {
		return err
	}
	if err = beginLogs(ctx, b.id); err != nil {
		return err
	}
	return c.run(b, spec)
}

// run has containerd make a container and start it. Its record comes first: all else is found by
// it, and goes with it.
func (c *client) run(b *builder, spec []byte) error {
	labels := map[string]string{labelAlloc: b.t.AllocId, labelName: b.t.Name, labelTask: b.t.Id}
	if err := c.createContainer(container{id: b.id, labels: labels, image: b.image.name, spec: spec}); err != nil {
		return saying("failed to create container", err)
	}
	mounts, err := c.prepare(b.id, b.image.chain)
	if err != nil {
		return saying("failed to prepare the files of image "+b.image.name, err)
	}
	at := b.t.Directories.Task + "/"
	if err := c.createTask(b.id, mounts, at+outputName(b.id, stdout), at+outputName(b.id, stderr), b.c.tty); err != nil {
		return saying("failed to create task", err)
	}
	if err := c.start(b.id, ""); err != nil {
		return saying("failed to start container", err)
	}
	return nil
}

// endTime is how long the processes of a container may take to end that were killed.
const endTime = 30 * time.Second

// remove removes a container with all that it has, by force. One that is not there is removed.
func (c *client) remove(ctx context.Context, id string) error {
	if err := c.kill(id, "", 9, true); err == nil {
		if _, err := c.wait(id, "", endTime); err != nil && !absent(err) {
			return err
		}
	} else if !gone(err) {
		return err
	}
	for _, remove := range []func(id string) error{c.deleteTask, c.removeSnapshot} {
		if err := remove(id); err != nil && !absent(err) {
			return err
		}
	}
	for _, stream := range []uint32{stdout, stderr} {
		if err := removeOutput(ctx, outputName(id, stream)); err != nil {
			return err
		}
	}
	_, err := c.ask("containers.v1.Containers/Delete", about(id))
	if absent(err) {
		return nil
	}
	return err
}

// removeAll removes the containers with these labels.
func (c *client) removeAll(ctx context.Context, labels ...string) error {
	found, err := c.containers(labels...)
	if err != nil {
		return err
	}
	for _, k := range found {
		if err := c.remove(ctx, k.id); err != nil {
			return err
		}
	}
	return nil
}

// gone takes the errors about processes that have ended: the shim's word for it is another one.
func gone(err error) bool {
	return absent(err) || isCode(err, abi.FailedPrecondition) || err != nil && strings.Contains(err.Error(), "process already finished")
}

// RecoverTask finds a container again, also one whose start was never answered.
func (d *containerd) RecoverTask(ctx context.Context, t *driver.TaskConfig, h *driver.TaskHandle) (*driver.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.recover)
	defer cancel()
	c, id, err := d.of(ctx, h)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if id == "" {
		id = containerID(t)
	}
	switch s, err := c.status(id); {
	case err == nil && (s.state == processRunning || s.state == processStopped):
		return handle(id), nil
	case err == nil:
		return nil, abi.NewError(abi.NotFound, "the container was not started")
	case !absent(err):
		return nil, err
	}
	if _, err := c.ended(id); err != nil {
		return nil, err
	}
	return handle(id), nil
}

// ended is how a container ended whose processes containerd has forgotten.
func (c *client) ended(id string) (ending, error) {
	k, err := c.container(id)
	if err != nil {
		return ending{}, err
	}
	e, found := parseEnding(k.labels[labelExit])
	if !found {
		return ending{}, abi.NewError(abi.NotFound, "the container's processes are gone, and how they ended is not known: the machine was restarted, or the shim was killed")
	}
	return e, nil
}

// ending is how a container ended, as its label has it.
type ending struct {
	exit
	oom bool
}

func (e ending) String() string {
	text := strconv.Itoa(int(e.code)) + " " + strconv.FormatInt(e.at.UnixNano(), 10)
	if e.oom {
		text += " oom"
	}
	return text
}

func parseEnding(text string) (e ending, found bool) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return e, false
	}
	code, err := strconv.ParseUint(words[0], 10, 32)
	at, _ := strconv.ParseInt(words[1], 10, 64)
	return ending{exit{uint32(code), time.Unix(0, at)}, len(words) > 2}, err == nil
}

func (e ending) result() *driver.ExitResult {
	r := &driver.ExitResult{ExitCode: int32(e.code), OomKilled: e.oom}
	if e.oom {
		r.Error = "OOM Killed"
	}
	return r
}

// How long the driver waits before it looks for more output: longer while there is none.
const (
	shortPause = 20 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// WaitTask copies the container's output until it ends, and says how it did.
func (d *containerd) WaitTask(ctx context.Context, _ string, h *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	waiting, id, err := d.of(ctx, h)
	if err != nil {
		return nil, 0, err
	}
	defer waiting.close()
	all, err := outputs(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	exited := waiting.watch(id, "", 0)
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		more, err := copyAll(ctx, all)
		if err != nil {
			return nil, 0, err
		}
		if more {
			pause = shortPause
		}
		select {
		case w := <-exited:
			result, err := d.finish(ctx, id, all, w)
			return result, 0, err
		case <-time.After(pause):
		}
	}
}

// finish keeps how a container ended, has its processes forgotten, which is when all of their
// output is there, and copies that.
func (d *containerd) finish(ctx context.Context, id string, all []*output, w waited) (*driver.ExitResult, error) {
	if w.err != nil && !absent(w.err) {
		return nil, w.err
	}
	c, err := d.engine.open(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	end := ending{exit: w.exit}
	if w.err == nil {
		end, err = c.keep(id, end)
	} else {
		end, err = c.ended(id)
	}
	if err != nil {
		return nil, err
	}
	for more := true; more; {
		if more, err = copyAll(ctx, all); err != nil {
			return nil, err
		}
	}
	return end.result(), nil
}

// keep writes down how a container ended before the shim, which knew, is gone.
func (c *client) keep(id string, end ending) (ending, error) {
	if end.code == 128+9 {
		m, err := c.metrics(id)
		if err != nil && !absent(err) {
			return end, err
		}
		end.oom = m.oomKills > 0
	}
	if err := c.label(id, labelExit, end.String()); err != nil {
		return end, err
	}
	if err := c.deleteTask(id); err != nil && !absent(err) {
		return end, err
	}
	return end, nil
}

// StopTask sends the signal, waits, and kills.
func (d *containerd) StopTask(ctx context.Context, _ string, h *driver.TaskHandle, signal string, timeout time.Duration) (*driver.TaskHandle, error) {
	if signal == "" {
		signal = "SIGTERM"
	}
	n, err := signalNumber(signal)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+patience.stop)
	defer cancel()
	ended, err := d.killAndWait(ctx, h, n, max(timeout, time.Millisecond))
	if err == nil && !ended {
		ended, err = d.killAndWait(ctx, h, 9, endTime)
	}
	if err == nil && !ended {
		err = abi.NewRecoverableError(abi.DeadlineExceeded, "the container does not end, though it was killed")
	}
	return nil, err
}

// killAndWait reports whether a container ends in time that gets a signal. What has ended has.
func (d *containerd) killAndWait(ctx context.Context, h *driver.TaskHandle, signal uint32, longest time.Duration) (ended bool, err error) {
	c, id, err := d.of(ctx, h)
	if err != nil {
		return false, err
	}
	defer c.close()
	if err = c.kill(id, "", signal, false); err != nil {
		if gone(err) {
			return true, nil
		}
		return false, err
	}
	_, err = c.wait(id, "", longest)
	switch {
	case gone(err):
		return true, nil
	case isCode(err, abi.DeadlineExceeded):
		return false, nil
	}
	return err == nil, err
}

// SignalTask sends a signal to the container's first process.
func (d *containerd) SignalTask(ctx context.Context, _ string, h *driver.TaskHandle, signal string) (*driver.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.signal)
	defer cancel()
	n, err := signalNumber(signal)
	if err != nil {
		return nil, err
	}
	c, id, err := d.of(ctx, h)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return nil, c.kill(id, "", n, false)
}

// signals are Linux's, on the machines that containerd runs on.
var signals = strings.Fields(`HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ
	VTALRM PROF WINCH IO PWR SYS`)

func signalNumber(name string) (uint32, error) {
	for i, s := range signals {
		if s == strings.TrimPrefix(name, "SIG") {
			return uint32(i + 1), nil
		}
	}
	return 0, abi.NewError(abi.InvalidArgument, "there is no signal "+strconv.Quote(name))
}

// DestroyTask removes the container. One of a start whose answer was lost is found by its label.
func (d *containerd) DestroyTask(ctx context.Context, taskID string, h *driver.TaskHandle, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience.remove)
	defer cancel()
	c, id, err := d.of(ctx, h)
	if err != nil {
		return err
	}
	defer c.close()
	if id == "" {
		return c.removeAll(ctx, labelTask, taskID)
	}
	if !force {
		s, err := c.status(id)
		switch {
		case err != nil && !absent(err):
			return err
		case err == nil && s.state != processStopped:
			return abi.NewError(abi.FailedPrecondition, "the container still runs")
		}
	}
	return c.remove(ctx, id)
}

// InspectTask asks containerd.
func (d *containerd) InspectTask(ctx context.Context, _ string, h *driver.TaskHandle) (*driver.TaskStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.recover)
	defer cancel()
	c, id, err := d.of(ctx, h)
	if err != nil {
		return nil, err
	}
	defer c.close()
	k, err := c.container(id)
	if err != nil {
		return nil, err
	}
	status := &driver.TaskStatus{State: driver.TaskRunning, StartedAtNs: k.created.UnixNano(), Attributes: map[string]string{"container_id": id}}
	end, found := parseEnding(k.labels[labelExit])
	if !found {
		s, err := c.status(id)
		if err != nil {
			return nil, err
		}
		end, found = ending{exit: s.exit}, s.state == processStopped
	}
	if found {
		status.State, status.CompletedAtNs, status.ExitResult = driver.TaskExited, end.at.UnixNano(), end.result()
	}
	return status, nil
}
