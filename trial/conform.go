package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// Conform checks whether the plugin, which has been configured, does what the contract says.
// The tasks have directories below dir. Of the options, the plugin's configuration is what it
// has.
func (t *Trial) Conform(ctx context.Context, dir string, o conform.Options) *conform.Report {
	o.PluginConfig = t.config
	return conform.Run(ctx, &node{trial: t, dir: dir}, o)
}

// node is a trial as a plugin's checks see it.
type node struct {
	trial *Trial
	dir   string
	tasks int64
}

var _ conform.Node = (*node)(nil)

// Operations implements [conform.Node].
func (n *node) Operations() []string { return n.trial.plugin.Spec().Operations }

// Call implements [conform.Node].
func (n *node) Call(ctx context.Context, c conform.Call) conform.Outcome {
	if c.Fresh {
		n.trial.plugin.Grant(ctx, n.trial.grants) // instances from before are not kept
	}
	if s := c.Streams; s != nil {
		ctx = host.WithStreams(ctx, func() host.CommandStreams {
			return host.CommandStreams{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr}
		})
	}
	var out conform.Outcome
	r := n.trial.call(ctx, Call{Op: c.Op, Request: c.Request, Task: c.Task, Fail: c.Fail}, func(u host.CapabilityUse, x *host.Exchange) { listen(&out, u, x) })
	out.Answer, out.Err = r.Answer, r.Err
	for _, u := range r.Uses {
		if u.Op == c.Op && u.Answers {
			out.Asked++
		}
	}
	return out
}

// listen notes what a plugin tells.
func listen(out *conform.Outcome, u host.CapabilityUse, x *host.Exchange) {
	switch {
	case u.Module == abi.ModuleLog:
		out.Lines = append(out.Lines, len(x.Request))
	case u.Module == abi.ModuleTask && u.Function == abi.FuncTaskEvent:
		e := &wasmnodev1.TaskEvent{}
		if e.UnmarshalVT(x.Request) == nil {
			out.Events = append(out.Events, e)
		}
	}
}

// Fit implements [conform.Node].
func (n *node) Fit(schema string, config []byte) ([]byte, error) {
	compiled, err := configschema.Compile(schema)
	if err != nil {
		return nil, err
	}
	var value map[string]any
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return compiled.CheckJSON("config", value)
}

// NewTask implements [conform.Node].
func (n *node) NewTask() (*wasmnodev1.TaskConfig, error) {
	n.tasks++
	return conform.Task(filepath.Join(n.dir, fmt.Sprint(n.tasks)), n.tasks, nil)
}

// HasWorkload implements [conform.Node].
func (n *node) HasWorkload(ctx context.Context, taskID string) bool {
	_, err := n.trial.workloads.Inspect(ctx, taskID)
	return err == nil
}

// stopTime is how long a workload may take to end before it is killed.
const stopTime = time.Second

// EndWorkload implements [conform.Node].
func (n *node) EndWorkload(ctx context.Context, taskID string) {
	_ = n.trial.workloads.Stop(ctx, taskID, "SIGTERM", stopTime) // there may be none
}

// ForgetWorkload implements [conform.Node].
func (n *node) ForgetWorkload(ctx context.Context, taskID string) {
	_ = n.trial.workloads.Destroy(ctx, taskID) // the trial's end destroys what is left
}
