package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wasmnode/wasmnode/abi"
)

// engine is where containerd is, and whose of its things are the driver's: all that it has is
// in a namespace. (Not one of the kernel's.)
type engine struct {
	socket      string
	namespace   string
	snapshotter string
	runtime     string
}

// client is a connection to containerd. One call is made after the other.
type client struct {
	*connection
	engine
}

// open connects, with more of what each call says of itself than the namespace.
func (e engine) open(ctx context.Context, more ...hpack.HeaderField) (*client, error) {
	c, err := connect(ctx, e.socket, append(more, hpack.HeaderField{Name: "containerd-namespace", Value: e.namespace})...)
	if err != nil {
		return nil, err
	}
	return &client{c, e}, nil
}

func (c *client) close() { _ = c.Close() }

// services are containerd's, by the short names that methods have here.
const services = "/containerd.services."

// ask calls a method that answers with one message.
func (c *client) ask(method string, request *message) (answer fields, err error) {
	return c.askWithin(answerTime, method, request)
}

func (c *client) askWithin(longest time.Duration, method string, request *message) (answer fields, err error) {
	err = c.call(services+method, request.b, longest, func(m []byte) error {
		answer = append(fields(nil), m...)
		return nil
	})
	if err == nil && !answer.wellFormed() {
		err = abi.NewError(abi.Internal, "containerd's answer cannot be read")
	}
	return answer, err
}

// about is a request about one thing, whose name is its first field.
func about(name string) *message {
	m := &message{}
	m.text(1, name)
	return m
}

// process is a request about a process of a container; without an ID, the first one.
func process(container, exec string) *message {
	m := about(container)
	m.text(2, exec)
	return m
}

// isCode reports whether an error is of that code.
func isCode(err error, code abi.Code) bool { return err != nil && abi.CodeOf(err) == code }

// absent reports whether containerd says that it has not what it was asked about. Where it is not
// there itself, that is not known: the error of a missing socket can be mended.
func absent(err error) bool { return isCode(err, abi.NotFound) && !abi.IsRecoverable(err) }

// saying says what failed, in front of why.
func saying(what string, err error) error {
	text := what + ": " + err.Error()
	if abi.IsRecoverable(err) {
		return abi.NewRecoverableError(abi.CodeOf(err), text)
	}
	return abi.NewError(abi.CodeOf(err), text)
}

// version is containerd's, as "1.6.20".
func (c *client) version() (string, error) {
	v, err := c.ask("version.v1.Version/Version", &message{})
	return v.text(1), err
}

// plugin is a part of containerd.
type plugin struct {
	fault        string // why it does not work; empty: it does
	architecture string
}

// plugin finds a part of containerd; false: it has none of that name.
func (c *client) plugin(kind, id string) (plugin, bool, error) {
	m := &message{}
	m.texts(1, []string{"type==" + kind + ",id==" + id})
	answer, err := c.ask("introspection.v1.Introspection/Plugins", m)
	if err != nil {
		return plugin{}, false, err
	}
	for _, p := range answer.all(1) {
		if p.text(1) == kind && p.text(2) == id {
			return plugin{p.text(7, 2), p.text(4, 2)}, true, nil
		}
	}
	return plugin{}, false, nil
}

// provideNamespace makes the driver's namespace, if it is not there.
func (c *client) provideNamespace() error {
	m := &message{}
	m.raw(1, about(c.namespace).b)
	_, err := c.ask("namespaces.v1.Namespaces/Create", m)
	if isCode(err, abi.AlreadyExists) {
		return nil
	}
	return err
}

// container is one that containerd knows, whether or not it runs.
type container struct {
	id      string
	labels  map[string]string
	image   string
	spec    []byte // by the runtime's specification, in JSON
	created time.Time
}

// The names of that specification, and of its part that is a process.
const (
	specType    = "types.containerd.io/opencontainers/runtime-spec/1/Spec"
	processType = "types.containerd.io/opencontainers/runtime-spec/1/Process"
)

func (c *client) createContainer(k container) error {
	m, runtime := about(k.id), about(c.runtime)
	m.texted(2, k.labels)
	m.text(3, k.image)
	m.raw(4, runtime.b)
	m.any(5, specType, k.spec)
	m.text(6, c.snapshotter)
	m.text(7, k.id)
	request := &message{}
	request.raw(1, m.b)
	_, err := c.ask("containers.v1.Containers/Create", request)
	return err
}

// containerOf reads a container, as much as is used of it.
func containerOf(f fields) container {
	return container{id: f.text(1), labels: f.texted(2), image: f.text(3), spec: f.get(5, 2), created: timeOf(f.get(8))}
}

// timeOf reads a time.
func timeOf(f fields) time.Time { return time.Unix(int64(f.number(1)), int64(f.number(2))) }

func (c *client) container(id string) (container, error) {
	answer, err := c.ask("containers.v1.Containers/Get", about(id))
	return containerOf(answer.get(1)), err
}

// containers are those whose labels have these values.
func (c *client) containers(labels ...string) ([]container, error) {
	var filters []string
	for i := 0; i+1 < len(labels); i += 2 {
		filters = append(filters, "labels."+strconv.Quote(labels[i])+"=="+strconv.Quote(labels[i+1]))
	}
	m := &message{}
	m.texts(1, []string{strings.Join(filters, ",")})
	answer, err := c.ask("containers.v1.Containers/List", m)
	if err != nil {
		return nil, err
	}
	var found []container
	for _, f := range answer.all(1) {
		found = append(found, containerOf(f))
	}
	return found, nil
}

// label gives a container a label.
func (c *client) label(id, name, value string) error {
	m, mask, request := about(id), &message{}, &message{}
	m.texted(2, map[string]string{name: value})
	mask.text(1, "labels."+name)
	request.raw(1, m.b)
	request.raw(2, mask.b)
	_, err := c.ask("containers.v1.Containers/Update", request)
	return err
}

// prepare makes the file system of a container, on what the image has, and returns its mounts.
func (c *client) prepare(key, parent string) ([]fields, error) {
	m := about(c.snapshotter)
	m.text(2, key)
	m.text(3, parent)
	answer, err := c.ask("snapshots.v1.Snapshots/Prepare", m)
	return answer.all(1), err
}

func (c *client) removeSnapshot(key string) error {
	m := about(c.snapshotter)
	m.text(2, key)
	_, err := c.ask("snapshots.v1.Snapshots/Remove", m)
	return err
}

// createTask makes the processes of a container ready to start. Its output is appended to those
// files.
func (c *client) createTask(id string, mounts []fields, stdout, stderr string, terminal bool) error {
	m := about(id)
	for _, mount := range mounts {
		m.raw(3, mount)
	}
	m.text(5, stdout)
	if !terminal {
		m.text(6, stderr)
	}
	m.truth(7, terminal)
	_, err := c.ask("tasks.v1.Tasks/Create", m)
	return err
}

func (c *client) start(id, exec string) error {
	_, err := c.ask("tasks.v1.Tasks/Start", process(id, exec))
	return err
}

// exit is how a process ended.
type exit struct {
	code uint32
	at   time.Time
}

// exitOf reads an exit, whose fields have these numbers.
func exitOf(f fields, code, at protowire.Number) exit {
	return exit{uint32(f.number(code)), timeOf(f.get(at))}
}

// wait waits for the end of a process; without a time, as long as it takes.
func (c *client) wait(id, exec string, longest time.Duration) (exit, error) {
	answer, err := c.askWithin(longest, "tasks.v1.Tasks/Wait", process(id, exec))
	return exitOf(answer, 1, 2), err
}

// waited is what a wait has come to.
type waited struct {
	exit
	err error
}

// watch waits beside what else is done, on a connection that is used for nothing else meanwhile.
func (c *client) watch(id, exec string, longest time.Duration) <-chan waited {
	done := make(chan waited, 1) // nobody may be there any more to take it
	go func() {
		e, err := c.wait(id, exec, longest)
		done <- waited{e, err}
	}()
	return done
}

// kill sends a signal to a process, or to all of the container.
func (c *client) kill(id, exec string, signal uint32, all bool) error {
	m := process(id, exec)
	m.number(3, uint64(signal))
	m.truth(4, all)
	_, err := c.ask("tasks.v1.Tasks/Kill", m)
	return err
}

// deleteTask forgets the processes of a container, which have ended, once all of their output is
// in its files.
func (c *client) deleteTask(id string) error {
	_, err := c.ask("tasks.v1.Tasks/Delete", about(id))
	return err
}

// States of a process.
const (
	processRunning = 2
	processStopped = 3
)

// status is the state of a container's first process.
type status struct {
	state  uint64
	stdout string // the path of its file
	exit   exit
}

func (c *client) status(id string) (status, error) {
	answer, err := c.ask("tasks.v1.Tasks/Get", about(id))
	p := answer.get(1)
	return status{p.number(4), p.text(6), exitOf(p, 9, 10)}, err
}
