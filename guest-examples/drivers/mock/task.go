package main

import (
	"io"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// stateVersion is the version of the handles that this driver writes and reads.
const stateVersion = 1

// taskState is all that there is of a mock task, and is kept in its handle.
type taskState struct {
	raw     []byte // the task's config as it came
	config  config.Value
	started time.Time
	stopped time.Time // zero: it was not stopped
}

// handle writes the state as JSON; the parts need no escaping.
func (s *taskState) handle() *driver.TaskHandle {
	b := []byte(`{"started_ns":`)
	b = strconv.AppendInt(b, s.started.UnixNano(), 10)
	if !s.stopped.IsZero() {
		b = append(b, `,"stopped_ns":`...)
		b = strconv.AppendInt(b, s.stopped.UnixNano(), 10)
	}
	if len(s.raw) > 0 {
		b = append(b, `,"config":`...)
		b = append(b, s.raw...)
	}
	return &driver.TaskHandle{Version: stateVersion, DriverState: append(b, '}')}
}

func decodeState(handle *driver.TaskHandle) (*taskState, error) {
	if handle.Version != stateVersion {
		return nil, abi.NewError(abi.FailedPrecondition, "the handle has version "+strconv.Itoa(int(handle.Version))+
			", this driver reads "+strconv.Itoa(stateVersion))
	}
	v, err := config.Parse(handle.DriverState)
	if err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "handle: "+err.Error())
	}
	if !v.Get("started_ns").IsSet() {
		return nil, abi.NewError(abi.InvalidArgument, "handle: started_ns is missing")
	}
	s := &taskState{config: v.Get("config"), started: time.Unix(0, v.Get("started_ns").Int())}
	s.raw = rawConfig(handle.DriverState)
	if stopped := v.Get("stopped_ns"); stopped.IsSet() {
		s.stopped = time.Unix(0, stopped.Int())
	}
	return s, s.check()
}

// rawConfig cuts the config out of a state as handle writes it: it is the last
// member, and no other can contain its name.
func rawConfig(state []byte) []byte {
	const name = `,"config":`
	for i := 0; i+len(name) < len(state); i++ {
		if string(state[i:i+len(name)]) == name {
			return state[i+len(name) : len(state)-1]
		}
	}
	return nil
}

// check reports durations that are none, so that what follows needs no errors.
func (s *taskState) check() error {
	if _, err := s.config.Get("kill_after").Duration(); err != nil {
		return abi.NewError(abi.InvalidArgument, "kill_after: "+err.Error())
	}
	_, err := newCommand(s.config)
	return err
}

func (s *taskState) killAfter() time.Duration {
	d, _ := s.config.Get("kill_after").Duration()
	return d
}

func (s *taskState) command() command {
	c, _ := newCommand(s.config)
	return c
}

// end is when the task ends or has ended: by itself, or stopped before that.
func (s *taskState) end() time.Time {
	end := s.started.Add(s.command().runFor)
	if !s.stopped.IsZero() && s.stopped.Before(end) {
		return s.stopped
	}
	return end
}

// result is how the task has ended, nil while it runs.
func (s *taskState) result(now time.Time) *driver.ExitResult {
	end := s.end()
	if now.Before(end) {
		return nil
	}
	if end.Equal(s.stopped) {
		return &driver.ExitResult{
			ExitCode: int32(s.config.Get("stop_exit_code").Int()),
			Signal:   int32(s.config.Get("stop_exit_signal").Int()),
		}
	}
	return s.command().result()
}

// writeFirst writes what is due at the start.
func (s *taskState) writeFirst(stdout, stderr io.Writer) error {
	c := s.command()
	if err := c.stdout.writeFirst(stdout); err != nil {
		return err
	}
	return c.stderr.writeFirst(stderr)
}

// writeDue writes what is due now and returns how long nothing else is.
func (s *taskState) writeDue(now time.Time, stdout, stderr io.Writer) (time.Duration, error) {
	c := s.command()
	age := now.Sub(s.started)
	next := s.end().Sub(now)
	for _, o := range []struct {
		output
		to io.Writer
	}{{c.stdout, stdout}, {c.stderr, stderr}} {
		due, after := o.due(age)
		if due {
			if _, err := io.WriteString(o.to, o.text); err != nil {
				return 0, err
			}
		}
		if after > 0 {
			next = min(next, after)
		}
	}
	return next, nil
}

// command is the part of a config for how something runs and ends.
type command struct {
	config         config.Value
	runFor         time.Duration
	stdout, stderr output
}

func newCommand(c config.Value) (command, error) {
	cmd := command{config: c}
	var err error
	if cmd.runFor, err = c.Get("run_for").Duration(); err != nil {
		return cmd, abi.NewError(abi.InvalidArgument, "run_for: "+err.Error())
	}
	if cmd.stdout, err = newOutput(c, "stdout"); err != nil {
		return cmd, err
	}
	cmd.stderr, err = newOutput(c, "stderr")
	return cmd, err
}

func (c command) result() *driver.ExitResult {
	return &driver.ExitResult{
		ExitCode: int32(c.config.Get("exit_code").Int()),
		Signal:   int32(c.config.Get("exit_signal").Int()),
		Error:    c.config.Get("exit_err_msg").Text(),
	}
}

// output is a text that is written once and then a number of times again.
type output struct {
	text   string
	repeat int64
	every  time.Duration
}

func newOutput(c config.Value, stream string) (output, error) {
	every, err := c.Get(stream + "_repeat_duration").Duration()
	if err != nil {
		return output{}, abi.NewError(abi.InvalidArgument, stream+"_repeat_duration: "+err.Error())
	}
	return output{text: c.Get(stream + "_string").Text(), repeat: c.Get(stream + "_repeat").Int(), every: every}, nil
}

func (o output) writeFirst(to io.Writer) error {
	if o.text == "" {
		return nil
	}
	times := int64(1)
	if o.every <= 0 {
		times += o.repeat
	}
	for range times {
		if _, err := io.WriteString(to, o.text); err != nil {
			return err
		}
	}
	return nil
}

// due reports whether the text is to be written at this age of the task, and after how
// long the next time is (0: never). No memory tells what was written before, so each
// writing belongs to the poll nearest to its time: the node polls when it is asked
// to, give or take a little. One that comes half an interval late loses a writing.
func (o output) due(age time.Duration) (now bool, next time.Duration) {
	if o.text == "" || o.repeat <= 0 || o.every <= 0 || age < 0 {
		return false, 0
	}
	slot := int64((age + o.every/2) / o.every)
	if slot < o.repeat {
		next = time.Duration(slot+1)*o.every - age
	}
	return slot >= 1 && slot <= o.repeat, next
}
