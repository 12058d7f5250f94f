// Command broken is a driver that does all that the contract says, but for what its
// configuration names.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/command"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

func init() { driver.Serve(&broken{seen: map[string]bool{}}) }

func main() {}

type broken struct {
	how   string
	pin   string
	stuck bool
	fails string          // the operation that answers nothing but an error
	seen  map[string]bool // tasks
	asks  int
}

// files does all that can be done with files, and says what came of it.
func files(dir string, forget bool) (string, error) {
	local, said := dir+"/local/", ""
	entries, err := os.ReadDir(local)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		said += e.Name() + " "
	}
	conf, err := os.ReadFile(local + "app.conf")
	if err != nil {
		return "", err
	}
	info, err := os.Stat(local + "app.conf")
	if err != nil {
		return "", err
	}
	token, err := os.ReadFile(dir + "/secrets/db")
	if err != nil {
		return "", err
	}
	_, missing := os.Lstat(local + "missing")
	said += string(conf) + info.ModTime().UTC().Format(time.RFC3339Nano) + strings.TrimSpace(string(token)) + missing.Error()
	if forget {
		return said, nil
	}
	out, err := os.Create(local + "out")
	if err != nil {
		return "", err
	}
	defer out.Close()
	if _, err := out.Write(append([]byte("for "), token...)); err != nil {
		return "", err
	}
	if err := out.Truncate(3); err != nil {
		return "", err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	back, err := io.ReadAll(out)
	if err != nil {
		return "", err
	}
	if err := os.Rename(local+"out", local+"done"); err != nil {
		return "", err
	}
	return said + string(back), os.Symlink("done", local+"link")
}

// state is what a handle has.
type state struct {
	Task    string
	Started time.Time
	Stopped bool
	Token   string // drawn
	Env     map[string]string
}

// ask uses a capability in the one operation that its configuration names.
func (b *broken) ask(ctx context.Context, op, id string) error {
	how, of, _ := strings.Cut(b.how, " in ")
	if of != op {
		return nil
	}
	if b.fails == op {
		return abi.NewError(abi.Internal, "it is stuck")
	}
	err := task.Event(ctx, id, op, nil)
	switch {
	case err != nil && how == "panics":
		panic(err)
	case err != nil && how == "sticks":
		b.fails = op
	}
	return err
}

func (b *broken) Describe() *driver.Description {
	return &driver.Description{
		Name: "broken", Version: "0.1.0", Capabilities: &driver.Capabilities{},
		PluginConfigSchema: `{"type": "object", "properties": {"how": {"type": "string", "default": ""}, "pin": {"type": "string", "default": "", "writeOnly": true}}, "additionalProperties": false}`,
		TaskConfigSchema:   `{"type": "object", "properties": {"message": {"type": "string", "default": "here"}}, "additionalProperties": false}`,
	}
}

func (b *broken) Configure(_ context.Context, config []byte) error {
	var c struct{ How, PIN string }
	if err := json.Unmarshal(config, &c); err != nil {
		return abi.NewError(abi.InvalidArgument, err.Error())
	}
	b.how, b.pin = c.How, c.PIN
	return nil
}

func (b *broken) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	if b.how == "attribute" {
		return &driver.Fingerprint{Health: driver.Healthy, Attributes: map[string]*driver.Attribute{"cpu.arch": driver.String("none")}}, nil
	}
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}

func (b *broken) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	b.seen[t.Id] = true
	if b.stuck {
		return nil, nil, abi.NewError(abi.Internal, "it is stuck")
	}
	began := time.Now()
	time.Sleep(time.Millisecond)
	s := state{Task: t.Id, Started: time.Now(), Token: rand.Text()}
	message := "here " + t.Env["SECRET"] + b.pin
	if b.how == "reads" {
		text, _ := os.ReadFile(task.Dir(ctx) + "/local/app.conf")
		message += string(text)
	}
	if b.how == "files" || b.how == "forgets files" {
		text, err := files(task.Dir(ctx), b.how == "forgets files")
		if err != nil {
			return nil, nil, abi.NewError(abi.FailedPrecondition, err.Error())
		}
		message += text
	}
	if b.how == "events" {
		message = strings.Repeat("here ", 300)
	}
	err := task.Event(ctx, t.GetId(), message, map[string]string{"slept": time.Since(began).String(), "token": s.Token})
	switch {
	case err == nil, b.how == "careless":
	case b.how == "capability":
		panic(err)
	default:
		b.stuck = b.how == "sticks"
		return nil, nil, err
	}
	if b.how == "hoard" {
		s.Env = t.Env
	}
	h := handleOf(s)
	if b.how == "claimed workload" {
		h.WorkloadId = t.Id
	}
	return h, nil, nil
}

func handleOf(s state) *driver.TaskHandle {
	b, _ := json.Marshal(s) // it can be encoded
	return &driver.TaskHandle{Version: 1, DriverState: b}
}

// find reads the handle that an operation has.
func (b *broken) find(ctx context.Context, op, id string, h *driver.TaskHandle) (s state, err error) {
	if err := b.ask(ctx, op, id); err != nil {
		return s, err
	}
	if b.how == "memory" && !b.seen[id] {
		return s, abi.ErrTaskNotFound
	}
	if h.GetVersion() != 1 {
		return s, abi.NewError(abi.InvalidArgument, "a handle of another version")
	}
	if err := json.Unmarshal(h.DriverState, &s); err != nil {
		if b.how == "garbage" {
			return s, nil
		}
		return s, abi.NewError(abi.InvalidArgument, strings.ToValidUTF8(err.Error(), "?"))
	}
	return s, nil
}

func (b *broken) RecoverTask(ctx context.Context, t *driver.TaskConfig, h *driver.TaskHandle) (*driver.TaskHandle, error) {
	_, err := b.find(ctx, abi.OpDriverRecoverTask, t.GetId(), h)
	return nil, err
}

func (b *broken) WaitTask(ctx context.Context, id string, h *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	s, err := b.find(ctx, abi.OpDriverWaitTask, id, h)
	switch {
	case b.how == "no wait":
		return nil, 0, abi.NewError(abi.Unimplemented, "there is nothing to wait for")
	case err != nil:
		return nil, 0, err
	case !s.Stopped:
		return nil, time.Second, nil
	case b.how == "wait":
		b.asks++
		return &driver.ExitResult{ExitCode: int32(b.asks)}, 0, nil
	}
	return &driver.ExitResult{}, 0, nil
}

func (b *broken) StopTask(ctx context.Context, id string, h *driver.TaskHandle, _ string, _ time.Duration) (*driver.TaskHandle, error) {
	s, err := b.find(ctx, abi.OpDriverStopTask, id, h)
	if err != nil {
		return nil, err
	}
	if s.Stopped && b.how == "stop" {
		return nil, abi.NewError(abi.FailedPrecondition, "it has ended")
	}
	s.Stopped = true
	return handleOf(s), nil
}

func (b *broken) InspectTask(ctx context.Context, id string, h *driver.TaskHandle) (*driver.TaskStatus, error) {
	s, err := b.find(ctx, abi.OpDriverInspectTask, id, h)
	switch {
	case b.how == "wordless":
		return nil, abi.NewError(abi.Internal, "")
	case err != nil:
		return nil, err
	}
	if b.how == "log" {
		log.Info(ctx, strings.Repeat("inspected ", 1000))
	}
	for b.how == "loop" && !s.Stopped {
		b.asks++
	}
	return &driver.TaskStatus{}, nil
}

func (b *broken) DestroyTask(ctx context.Context, id string, h *driver.TaskHandle, force bool) error {
	s, err := b.find(ctx, abi.OpDriverDestroyTask, id, h)
	if err != nil {
		return err
	}
	if !s.Stopped && !force && b.how != "destroy" {
		return abi.NewError(abi.FailedPrecondition, "it runs")
	}
	return nil
}

func (b *broken) SignalTask(ctx context.Context, id string, h *driver.TaskHandle, signal string) (*driver.TaskHandle, error) {
	if _, err := b.find(ctx, abi.OpDriverSignalTask, id, h); err != nil {
		return nil, err
	}
	if b.how == "echo" {
		signal += signal
	}
	return nil, abi.NewError(abi.InvalidArgument, "unknown signal "+signal)
}

func (b *broken) TaskStats(ctx context.Context, id string, h *driver.TaskHandle) (*driver.TaskStats, error) {
	_, err := b.find(ctx, abi.OpDriverTaskStats, id, h)
	return &driver.TaskStats{}, err
}

// Exec runs commands that copy their input.
func (b *broken) Exec(ctx context.Context, id string, h *driver.TaskHandle, _ *driver.Command) (*driver.ExitResult, error) {
	if _, err := b.find(ctx, abi.OpDriverExecTask, id, h); err != nil {
		return nil, err
	}
	streams, err := command.Open(ctx)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(streams.Stdout, streams.Stdin)
	for b.how == "deaf" && err != nil {
		_, err = io.Copy(streams.Stdout, streams.Stdin)
	}
	return &driver.ExitResult{}, err
}

func (b *broken) CreateNetwork(_ context.Context, allocID, _ string) (string, error) {
	if b.how == "network" {
		return "/run/" + rand.Text(), nil
	}
	return "/run/" + allocID, nil
}

func (b *broken) DestroyNetwork(_ context.Context, allocID string) error {
	if b.how == "no network" {
		return abi.NewError(abi.NotFound, "there is no network of "+allocID)
	}
	return nil
}
