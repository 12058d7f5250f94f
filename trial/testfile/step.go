package testfile

import (
	"cmp"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/internal/hclvalue"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

const (
	// patience is how long a test waits for a task to end where it does not say, and, with real
	// processes, for what it expects of the node.
	patience = 10 * time.Second
	// stopTime is how long a task may take to end where a test does not say, as in a job.
	stopTime = 5 * time.Second
	// lookAgain is how often a test looks whether what it expects of processes has come.
	lookAgain = 10 * time.Millisecond
)

// message is an answer.
type message interface{ MarshalVT() ([]byte, error) }

// take takes a step, and compares what it answers with what is expected.
func (r *running) take(s *step) {
	switch s.kind {
	case "expect":
		r.compareFacts(s)
		return
	case "refuse":
		r.refuse(s)
		return
	case "helper":
		r.answerHelper(s)
		return
	case "advance":
		r.advance(s)
		return
	}
	answer, err := r.ask(s)
	r.compareAnswer(s, answer, err)
}

// ask does what a step has the node do with the plugin. What it answers is encoded, or nil.
func (r *running) ask(s *step) ([]byte, error) {
	if k := kinds[s.kind]; r.driver == nil && (k.label == taskLabel || s.kind == "restart_agent") {
		r.Fatalf("%s is for drivers: a device plugin has no tasks", s.kind)
	}
	switch s.kind {
	case "configure":
		return nil, r.configure(s)
	case "start":
		return r.start(s)
	case "restart_agent":
		return nil, r.driver.Restart()
	case "upgrade":
		return nil, r.upgrade(s)
	case "call":
		return r.call(s)
	}
	task := r.task(s.label)
	switch s.kind {
	case "wait":
		result, err := r.driver.Await(task, s.duration("within", patience))
		return encoded(&wasmnodev1.DriverWaitTaskResponse{Result: result}, err)
	case "inspect":
		status, err := r.driver.Inspect(task)
		return encoded(&wasmnodev1.DriverInspectTaskResponse{Status: status}, err)
	case "signal":
		return nil, r.driver.Signal(task, s.text("signal"))
	case "stop":
		return nil, r.driver.Stop(task, s.text("signal"), s.duration("timeout", stopTime))
	case "destroy":
		force, _ := s.attrs["force"].value.(bool)
		return nil, r.driver.Destroy(task, force)
	case "exec":
		return r.exec(s, task)
	}
	return nil, r.end(s, task) // "end", the last of the kinds
}

// encoded is an answer's encoding, unless there is an error.
func encoded(m message, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return m.MarshalVT()
}

// text and duration are the attribute's value, which was checked.
func (s *step) text(name string) string {
	text, _ := s.attrs[name].value.(string)
	return text
}

func (s *step) duration(name string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(s.text(name)); err == nil {
		return d
	}
	return otherwise
}

// message encodes the attributes that are fields of a message.
func (s *step) message(name string) ([]byte, error) {
	fields := map[string]any{}
	for _, a := range s.attrs {
		fields[a.name] = a.value
	}
	return encode(name, fields)
}

// task is one that an earlier step has started, or tried to.
func (r *running) task(name string) *driver.TaskConfig {
	task := r.tasks[name]
	if task == nil {
		r.Fatalf("no step before this one starts a task %q", name)
	}
	return task
}

// checkConfig reads a config block as a node does, by a schema.
func (r *running) checkConfig(block *hclsyntax.Body, schema string) ([]byte, error) {
	config := map[string]any{}
	if block != nil {
		config, _ = hclvalue.Body(block, nil) // it was read before
	}
	compiled, err := configschema.Compile(schema)
	if err != nil {
		return nil, err
	}
	decoded, err := compiled.CheckJSON("config", config)
	var refused *configschema.FaultsError
	if errors.As(err, &refused) && block != nil && len(refused.Faults) > 0 {
		return nil, &placedError{place(block, refused.Faults[0].Path), err}
	}
	return decoded, err
}

// placedError is an error about a place that is not its step's.
type placedError struct {
	at  hcl.Range
	err error
}

func (e *placedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *placedError) Unwrap() error { return e.err }

// place is where in a block a path such as "config.mount[0].source" begins; the block's end where
// what is missing is at its top.
func place(block *hclsyntax.Body, path string) hcl.Range {
	_, path, _ = strings.Cut(path, ".")
	name, _, _ := strings.Cut(path, ".")
	name, _, _ = strings.Cut(name, "[")
	if a := block.Attributes[name]; a != nil {
		return a.NameRange
	}
	for _, b := range block.Blocks {
		if b.Type == name {
			return b.TypeRange
		}
	}
	return block.EndRange
}

func (r *running) configure(s *step) error {
	schema := ""
	if r.driver != nil {
		schema = r.driver.Describe().PluginConfigSchema
	} else {
		schema = r.devices.Describe().PluginConfigSchema
	}
	config, err := r.checkConfig(s.config, schema)
	if err != nil {
		return err
	}
	return r.node.Configure(string(config))
}

func (r *running) start(s *step) ([]byte, error) {
	config, err := r.checkConfig(s.config, r.driver.Describe().TaskConfigSchema)
	if err != nil {
		return nil, err
	}
	task, err := r.driver.TryTask(string(config))
	if err != nil {
		return nil, err
	}
	task.Name = s.label
	task.Env["NOMAD_TASK_NAME"] = s.label
	given, err := s.message("TaskConfig")
	if err != nil {
		return nil, err
	}
	if err := task.UnmarshalVT(given); err != nil { // what it has is added
		return nil, err
	}
	if before := r.tasks[s.label]; before != nil && r.driver.Handle(before) != nil {
		r.Fatalf("there is a task %q already: give this one another label, or destroy that one first", s.label)
	}
	r.tasks[s.label] = task
	handle, network, err := r.driver.StartTask(task)
	return encoded(&wasmnodev1.DriverStartTaskResponse{Handle: handle, Network: network}, err)
}

func (r *running) upgrade(s *step) error {
	wasm := r.plugin.wasm
	if file := s.text("file"); file != "" {
		var err error
		if wasm, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	return r.node.Upgrade(wasm)
}

func (r *running) exec(s *step, task *driver.TaskConfig) ([]byte, error) {
	var command []string
	for _, word := range s.attrs["command"].value.([]any) {
		command = append(command, word.(string))
	}
	var stdout, stderr strings.Builder
	c := &drivertest.Command{Args: command, Timeout: s.duration("timeout", patience), Stdin: strings.NewReader(s.text("stdin")), Stdout: &stdout, Stderr: &stderr}
	result, err := r.driver.Exec(task, r.driver.Handle(task), c)
	return encoded(&wasmnodev1.DriverExecTaskResponse{Stdout: []byte(stdout.String()), Stderr: []byte(stderr.String()), Result: result}, err)
}

// call calls an operation. A request that is about a task names it, and has its handle.
func (r *running) call(s *step) ([]byte, error) {
	request, _ := s.attrs["request"].value.(map[string]any)
	given, err := encode(messageOf(s.label, "Request"), request)
	if err != nil {
		return nil, err
	}
	if name := cmp.Or(s.text("task"), "task"); r.tasks[name] != nil || s.text("task") != "" {
		about, err := r.about(messageOf(s.label, "Request"), r.task(name), request)
		if err != nil {
			return nil, err
		}
		given = append(about, given...) // what comes later counts
	}
	return r.node.Call(s.label, given)
}

// about is what a request about a task begins with.
func (r *running) about(message string, task *driver.TaskConfig, given map[string]any) ([]byte, error) {
	fields := fieldsOf(message).Fields()
	all := &wasmnodev1.DriverStopTaskRequest{}
	if f := fields.ByName("task_id"); f == nil || f.Number() != 1 {
		return nil, nil
	}
	all.TaskId = task.Id
	if f := fields.ByName("handle"); f != nil && f.Number() == 2 && given["handle"] == nil {
		all.Handle = r.driver.Handle(task)
	}
	return all.MarshalVT()
}

func (r *running) end(s *step, task *driver.TaskConfig) error {
	given, err := s.message("ExitResult")
	if err != nil {
		return err
	}
	if r.test.RealProcesses {
		r.Fatalf("with real_processes a task ends when its process does")
	}
	result := &driver.ExitResult{}
	if err := result.UnmarshalVT(given); err != nil {
		return err
	}
	r.node.EndWorkload(task.Id, result)
	return nil
}

func (r *running) refuse(s *step) {
	recoverable, _ := s.attrs["recoverable"].value.(bool)
	err := &abi.Error{Code: codes[s.text("code")], Message: s.text("message"), Recoverable: recoverable}
	if s.label == "wasm" {
		r.node.RefuseWasm(err)
		return
	}
	r.node.RefuseProcess(err)
}

// answerHelper has a helper answer what the step says.
func (r *running) answerHelper(s *step) {
	given, err := s.message("ProcessRunResponse")
	if err == nil {
		err = new(process.Ended).UnmarshalVT(given)
	}
	if err != nil {
		r.Fatalf("%v", err)
	}
	r.helping.Lock()
	r.helpers[s.label] = given
	r.helping.Unlock()
	r.node.OnHelper(func(h *process.Helper) (*process.Ended, error) {
		r.helping.Lock()
		defer r.helping.Unlock()
		answer, is := r.helpers[h.Command]
		if !is {
			return nil, abi.NewError(abi.PermissionDenied, "run: "+h.Command+" is not granted: a test grants it by a helper block")
		}
		ended := new(process.Ended)
		return ended, ended.UnmarshalVT(answer)
	})
}

func (r *running) advance(s *step) {
	if r.clock == nil {
		r.Fatalf("advance: time is real, as it is with real_processes, and for device plugins")
	}
	r.clock.Sleep(s.duration("by", 0))
}
