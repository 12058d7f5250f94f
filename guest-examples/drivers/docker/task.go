package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// The engine owns the containers, so the driver has every operation.
var (
	_ driver.TaskRecoverer = (*docker)(nil)
	_ driver.TaskWaiter    = (*docker)(nil)
	_ driver.TaskStopper   = (*docker)(nil)
	_ driver.TaskSignaler  = (*docker)(nil)
	_ driver.TaskDestroyer = (*docker)(nil)
	_ driver.TaskInspector = (*docker)(nil)
	_ driver.TaskStatser   = (*docker)(nil)
)

// state is what a handle has of a task.
type state struct {
	container string // the ID
	terminal  bool   // its output is one stream
	silent    bool   // its output cannot be read from the engine
}

func (s state) handle() *driver.TaskHandle {
	var o object
	o.text("container", s.container)
	o.truth("terminal", s.terminal)
	o.truth("silent", s.silent)
	return &driver.TaskHandle{Version: 1, DriverState: o.encoded()}
}

// stateOf reads a handle. One without a container is that of a start whose answer was lost.
func stateOf(handle *driver.TaskHandle) (state, error) {
	if handle.Version != 1 {
		return state{}, abi.NewError(abi.FailedPrecondition, "a handle of version "+strconv.Itoa(int(handle.Version)))
	}
	v, err := config.Parse(handle.DriverState)
	if err != nil {
		return state{}, abi.NewError(abi.Internal, "handle: "+err.Error())
	}
	return state{v.Get("container").Text(), v.Get("terminal").Bool(), v.Get("silent").Bool()}, nil
}

// of is the state of a container that the engine describes.
func of(container config.Value) state {
	s := state{container: container.Get("Id").Text(), terminal: container.Get("Config", "Tty").Bool()}
	s.silent = container.Get("Config", "Labels", labelSilent).Text() != ""
	return s
}

// StartTask creates a container and starts it. What an earlier start of the same task has left
// is removed before.
func (d *docker) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.start)
	defer cancel()
	c, err := config.Parse(t.DriverConfig)
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	container, spec, err := d.start(ctx, t, c)
	if err != nil {
		d.unused(ctx, t.Id)
		return nil, nil, err
	}
	return of(container).handle(), network(container, spec), nil
}

// start returns the container as the engine describes it.
func (d *docker) start(ctx context.Context, t *driver.TaskConfig, c config.Value) (container config.Value, spec *specification, err error) {
	spec, id, err := d.prepare(ctx, t, c)
	if err != nil {
		return config.Value{}, nil, err
	}
	if err = beginLogs(ctx); err != nil {
		return config.Value{}, nil, err
	}
	if container, err = d.run(ctx, id); err != nil {
		_ = d.remove(ctx, id) // it is of no use, and the error says more
	}
	return container, spec, err
}

// prepare provides the image of a task and creates its container.
func (d *docker) prepare(ctx context.Context, t *driver.TaskConfig, c config.Value) (spec *specification, container string, err error) {
	name, image, err := d.provideImage(ctx, t, c)
	if err != nil {
		return nil, "", err
	}
	group, err := d.join(ctx, t, c)
	if err != nil {
		return nil, "", err
	}
	if spec, err = d.specify(t, c, group); err != nil {
		return nil, "", about("Failed to create container configuration for image "+strconv.Quote(name)+" ("+strconv.Quote(image)+")", err)
	}
	if group.mode != "" {
		if err = writeHosts(ctx, t, c, group); err != nil {
			return nil, "", err
		}
	}
	for _, full := range spec.local {
		if err = checkLinks(ctx, t.Directories, full); err != nil {
			return nil, "", err
		}
	}
	spec.image = name
	d.hasImage(ctx, image)
	if owner := d.use(ctx, t.Id); owner != "" {
		spec.labels[labelOwner] = owner
	}
	if container, err = d.create(ctx, t, spec); !absent(err) {
		return spec, container, err
	}
	// The image was removed since, for nobody had it. Now the note says that somebody has.
	if spec.image, _, err = d.provideImage(ctx, t, c); err == nil {
		container, err = d.create(ctx, t, spec)
	}
	return spec, container, err
}

// run starts a container and returns the engine's description of it.
func (d *docker) run(ctx context.Context, id string) (config.Value, error) {
	if err := d.engine.post(ctx, request{path: "/containers/" + id + "/start"}); err != nil {
		return config.Value{}, about("Failed to start container "+id, err)
	}
	return d.engine.inspect(ctx, id)
}

// about says what failed, in front of why.
func about(what string, err error) error {
	text := what + ": " + err.Error()
	if abi.IsRecoverable(err) {
		return abi.NewRecoverableError(abi.CodeOf(err), text)
	}
	return abi.NewError(abi.CodeOf(err), text)
}

// create creates the container of a task, which it names as Nomad does. The name may be taken
// by one that an earlier start of the task has left.
func (d *docker) create(ctx context.Context, t *driver.TaskConfig, spec *specification) (string, error) {
	name := containerName(t)
	for attempt := int64(0); ; attempt++ {
		v, err := d.engine.ask(ctx, request{
			method: "POST", path: "/containers/create", query: url.Values{"name": {name}}, body: spec.encoded(),
		})
		switch {
		case err == nil:
			return v.Get("Id").Text(), nil
		case !isCode(err, abi.FailedPrecondition) && !strings.Contains(err.Error(), "already in use"), attempt >= spec.attempts:
			return "", about("failed to create container", err)
		}
		if err := d.removeLeft(ctx, t.AllocId, name); err != nil {
			return "", err
		}
	}
}

// removeLeft removes a container that has the name of an allocation's, if it is of that one.
func (d *docker) removeLeft(ctx context.Context, allocID, name string) error {
	v, err := d.engine.inspect(ctx, name)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if v.Get("Config", "Labels", labelAlloc).Text() != allocID {
		return abi.NewError(abi.AlreadyExists, "a container that is not this allocation's has the name: "+name)
	}
	return d.remove(ctx, v.Get("Id").Text())
}

// remove removes a container with its anonymous volumes, by force. One that is not there is
// removed.
func (d *docker) remove(ctx context.Context, id string) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := d.engine.delete(ctx, "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}})
		switch {
		case err == nil || absent(err):
			return nil
		case !isCode(err, abi.FailedPrecondition) || pause > time.Second:
			return err
		}
		time.Sleep(pause) // somebody removes it already
	}
}

// RecoverTask finds a container again, also one whose start was never answered.
func (d *docker) RecoverTask(ctx context.Context, t *driver.TaskConfig, handle *driver.TaskHandle) (*driver.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.recover)
	defer cancel()
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	name := s.container
	if name == "" {
		name = containerName(t)
	}
	v, err := d.engine.inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.container != "" {
		return nil, d.useAgain(ctx, t.Id, v)
	}
	if v.Get("Config", "Labels", labelTask).Text() != t.Id || v.Get("State", "Status").Text() == "created" {
		return nil, abi.NewError(abi.NotFound, "the container was not started")
	}
	return of(v).handle(), d.useAgain(ctx, t.Id, v)
}

// WaitTask follows the container's output until it ends, and asks how it did.
func (d *docker) WaitTask(ctx context.Context, _ string, handle *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	s, err := stateOf(handle)
	if err != nil {
		return nil, 0, err
	}
	if err := d.untilEnded(ctx, s); err != nil {
		return nil, 0, err
	}
	v, err := d.engine.inspect(ctx, s.container)
	if err != nil {
		return nil, 0, err
	}
	return exit(v.Get("State")), 0, nil
}

// untilEnded copies output until the container has ended. A log that ends before is followed again: the
// engine may have rotated it, or have been restarted.
func (d *docker) untilEnded(ctx context.Context, s state) error {
	wait := request{method: "POST", path: "/containers/" + s.container + "/wait", lasting: true}
	if s.silent {
		_, err := d.engine.ask(ctx, wait)
		return err
	}
	wait.timeout = time.Second
	for {
		if err := d.copyLogs(ctx, s, true); err != nil {
			return err
		}
		_, err := d.engine.ask(ctx, wait)
		if err == nil {
			return d.copyLogs(ctx, s, false) // what an engine still had to write as it ended
		}
		if !isCode(err, abi.DeadlineExceeded) {
			return err
		}
	}
}

// exit is how a container ended, in the words of Nomad's driver.
func exit(v config.Value) *driver.ExitResult {
	r := &driver.ExitResult{ExitCode: int32(v.Get("ExitCode").Int()), OomKilled: v.Get("OOMKilled").Bool()}
	switch {
	case r.OomKilled:
		r.Error = "OOM Killed"
	case r.ExitCode != 0:
		r.Error = "Docker container exited with non-zero exit code: " + strconv.Itoa(int(r.ExitCode))
	}
	return r
}

// StopTask sends the signal, waits, and kills.
func (d *docker) StopTask(ctx context.Context, _ string, handle *driver.TaskHandle, signal string, timeout time.Duration) (*driver.TaskHandle, error) {
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+patience.stop)
	defer cancel()
	if signal == "" {
		signal = "SIGTERM"
	}
	if err = d.kill(ctx, s, signal, patience.stop/2); err != nil {
		return nil, ended(err)
	}
	if err = d.awaitEnd(ctx, s, max(timeout, time.Millisecond)); !isCode(err, abi.DeadlineExceeded) {
		return nil, ended(err)
	}
	if err = d.kill(ctx, s, "SIGKILL", 0); err == nil {
		err = d.awaitEnd(ctx, s, 0)
	}
	if isCode(err, abi.DeadlineExceeded) {
		err = abi.NewRecoverableError(abi.DeadlineExceeded, "the container does not end, though it was to be killed: "+err.Error())
	}
	return nil, ended(err)
}

// awaitEnd waits for the end of a container for so long; 0: as long as the operation may.
func (d *docker) awaitEnd(ctx context.Context, s state, longest time.Duration) error {
	_, err := d.engine.ask(ctx, request{method: "POST", path: "/containers/" + s.container + "/wait", timeout: longest, lasting: true})
	return err
}

// ended takes the errors about a container that does not run any more for none.
func ended(err error) error {
	if absent(err) || isCode(err, abi.FailedPrecondition) {
		return nil
	}
	return err
}

// kill sends a signal, and waits for the engine's word of it for so long; 0: as for any.
func (d *docker) kill(ctx context.Context, s state, signal string, longest time.Duration) error {
	return d.engine.post(ctx, request{path: "/containers/" + s.container + "/kill", query: url.Values{"signal": {signal}}, timeout: longest})
}

// SignalTask sends a signal to the container's first process.
func (d *docker) SignalTask(ctx context.Context, _ string, handle *driver.TaskHandle, signal string) (*driver.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.signal)
	defer cancel()
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	return nil, d.kill(ctx, s, signal, 0)
}

// DestroyTask removes the container. One of a start whose answer was lost is found by its label.
func (d *docker) DestroyTask(ctx context.Context, taskID string, handle *driver.TaskHandle, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience.remove)
	defer cancel()
	s, err := stateOf(handle)
	if err != nil {
		return err
	}
	if s.container == "" {
		return d.destroyLabelled(ctx, taskID)
	}
	if !force {
		v, err := d.engine.inspect(ctx, s.container)
		switch {
		case absent(err):
			d.unused(ctx, taskID)
			return nil
		case err != nil:
			return err
		case v.Get("State", "Running").Bool():
			return abi.NewError(abi.FailedPrecondition, "the container still runs")
		}
	}
	d.unused(ctx, taskID)
	if !d.collects.containers {
		return ended(d.kill(ctx, s, "SIGKILL", 0)) // the next start of the task removes it
	}
	return d.remove(ctx, s.container)
}

// destroyLabelled removes the containers that were created for an invocation of a task.
func (d *docker) destroyLabelled(ctx context.Context, taskID string) error {
	d.unused(ctx, taskID)
	var filter object
	filter.texts("label", []string{labelTask + "=" + taskID})
	found, err := d.engine.get(ctx, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filter.encoded())}})
	if err != nil {
		return err
	}
	for _, v := range found.Items() {
		if err := d.remove(ctx, v.Get("Id").Text()); err != nil {
			return err
		}
	}
	return nil
}

// InspectTask asks the engine.
func (d *docker) InspectTask(ctx context.Context, _ string, handle *driver.TaskHandle) (*driver.TaskStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.recover)
	defer cancel()
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	v, err := d.engine.inspect(ctx, s.container)
	if err != nil {
		return nil, err
	}
	status := &driver.TaskStatus{
		State: driver.TaskRunning, StartedAtNs: nanoseconds(v.Get("State", "StartedAt").Text()),
		Attributes: map[string]string{"container_id": s.container},
	}
	if !v.Get("State", "Running").Bool() {
		status.State = driver.TaskExited
		// The engine may note the start of a short container after its end.
		status.CompletedAtNs = max(status.StartedAtNs, nanoseconds(v.Get("State", "FinishedAt").Text()))
		status.ExitResult = exit(v.Get("State"))
	}
	return status, nil
}

// nanoseconds is a time as the engine writes it, since the Unix epoch; 0: none.
func nanoseconds(text string) int64 {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Unix() <= 0 {
		return 0
	}
	return t.UnixNano()
}

// TaskStats asks the engine, which answers at once with what it has.
func (d *docker) TaskStats(ctx context.Context, _ string, handle *driver.TaskHandle) (*driver.TaskStats, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.stats)
	defer cancel()
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	v, err := d.engine.get(ctx, "/containers/"+s.container+"/stats", url.Values{"stream": {"0"}, "one-shot": {"1"}})
	if err != nil {
		return nil, err
	}
	cpu, memory := v.Get("cpu_stats", "cpu_usage"), v.Get("memory_stats")
	return &driver.TaskStats{
		TimeNs:         time.Now().UnixNano(),
		CpuTotalNs:     unsigned(cpu.Get("total_usage")),
		CpuUserNs:      unsigned(cpu.Get("usage_in_usermode")),
		CpuSystemNs:    unsigned(cpu.Get("usage_in_kernelmode")),
		MemoryRssBytes: resident(memory),
		MemoryMaxBytes: unsigned(memory.Get("max_usage")),
	}, nil
}

// resident is what a container has in memory; under cgroup v2 it has another name.
func resident(memory config.Value) *uint64 {
	if rss := memory.Get("stats", "rss"); rss.IsSet() {
		return unsigned(rss)
	}
	return unsigned(memory.Get("stats", "anon"))
}

func unsigned(v config.Value) *uint64 {
	if !v.IsSet() {
		return nil
	}
	n := uint64(max(0, v.Int()))
	return &n
}
