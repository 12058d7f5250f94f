package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/trial"
)

// liveRecording is a recording of the calls of a node's plugin, as it comes.
type liveRecording struct {
	meta
	flags *flags
	file  *os.File
	size  int64 // of what is whole
	calls int
}

// liveCall is a call that was recorded, for programs.
type liveCall struct {
	Operation string
	AllocID   string `json:",omitempty"`
	Task      string `json:",omitempty"`
	Uses      int
	Files     []string `json:",omitempty"` // that it asked for by WASI
	Error     string   `json:",omitempty"`
	LeftOut   int      `json:",omitempty"` // calls before it
}

// recordLive records until it is interrupted or a bound is reached, and returns the exit code.
func (c *pluginRecordCommand) recordLive(f *flags, to string, longest time.Duration, bytes int) int {
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	r := &liveRecording{meta: c.meta, flags: f}
	if r.file, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return c.fail(f, err)
	}
	s := &pluginStream{
		meta: c.meta, flags: f, client: client, ownJSON: true,
		params: map[string]string{"for": longest.String(), "bytes": strconv.Itoa(bytes)},
		begun:  fmt.Sprintf("==> Calls of plugin %q from now on are recorded in %s", f.Arg(0), to),
	}
	code := s.run("record", r.take)
	return max(code, r.end(to, code))
}

// take writes one part.
func (r *liveRecording) take(line []byte) error {
	var p trial.LivePart
	if err := json.Unmarshal(line, &p); err != nil {
		return err
	}
	if p.LeftOut > 0 && !*r.flags.json {
		r.ui.Output(fmt.Sprintf("==> %s not recorded: too large, or given up by the node", counted(p.LeftOut, "call")))
	}
	if p.End != "" {
		if !*r.flags.json {
			r.ui.Output("==> The recording has ended: " + harmless(p.End))
		}
		return io.EOF
	}
	if err := r.write(p); err != nil {
		return err
	}
	call := liveCall{p.Operation, p.AllocID, p.Task, p.Uses, p.Files, p.Error, p.LeftOut}
	if *r.flags.json {
		text, err := json.Marshal(call)
		if err == nil {
			r.ui.Output(string(text))
		}
		return err
	}
	files := ""
	if text := filesText(p.Files); text != "" {
		files = "; with the files " + text
	}
	r.ui.Output(harmless(fmt.Sprintf("%s%s: %s, %s%s", p.Operation, taskText(r.flags, p.AllocID, p.Task), callOutcome(p.Error), counted(p.Uses, "capability use"), files)))
	return nil
}

// write writes the lines of a call, all of them or none.
func (r *liveRecording) write(p trial.LivePart) error {
	text := p.Text
	if r.calls == 0 {
		text = p.Header + text
	}
	if _, err := r.file.WriteString(text); err != nil {
		return errors.Join(err, r.file.Truncate(r.size))
	}
	r.size += int64(len(text))
	r.calls++
	return nil
}

// end closes the file, which is gone if nothing is in it, and returns the exit code of that.
func (r *liveRecording) end(to string, failed int) int {
	err := r.file.Close()
	if r.calls == 0 {
		err = errors.Join(err, os.Remove(to))
		if err == nil && failed == 0 {
			err = errors.New("nothing is recorded: the plugin was not called")
		}
	}
	if err != nil {
		return r.fail(r.flags, err)
	}
	if r.calls > 0 && !*r.flags.json {
		r.ui.Output("\n" + to + ": " + counted(r.calls, "call"))
	}
	return 0
}
