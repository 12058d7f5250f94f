package host

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
)

// workloadFuncs is wasmnode:workload/v1: the workloads of the task that a call is about. It
// needs no grant but that of a command, since whoever has the workload was granted its start.
var workloadFuncs = map[string]sandbox.HostFunc{
	abi.FuncWorkloadSignal:  ofWorkload(workloadSignal),
	abi.FuncWorkloadStop:    ofWorkload(workloadStop),
	abi.FuncWorkloadWait:    ofWorkload(workloadWait),
	abi.FuncWorkloadStats:   ofWorkload(workloadStats),
	abi.FuncWorkloadInspect: ofWorkload(workloadInspect),
	abi.FuncWorkloadExec:    ofWorkload(workloadExec),
}

// longestStop bounds the time that a workload is given to end by itself.
const longestStop = 24 * time.Hour

// ofWorkload makes a function of one that is told which workload of the call's task it is
// about, by its ID. The guest waits in it.
func ofWorkload[R any, P interface {
	*R
	Message
	GetName() string
}](do func(ctx context.Context, c *call, id string, r P) (Message, error)) sandbox.HostFunc {
	return structured(func(ctx context.Context, c *call, request []byte) (Message, error) {
		r := P(new(R))
		if err := decode(request, r); err != nil {
			return nil, abi.NewError(abi.InvalidArgument, "not a request about a workload")
		}
		switch {
		case c.plugin.pool.settings() == nil:
			return nil, abi.NewError(abi.PermissionDenied, "workloads: not before the plugin is configured")
		case c.scope == nil:
			return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("a call of %s is about no task, whose workloads there could be", c.op))
		}
		id, err := namedID(c.scope.Config.Id, r.GetName())
		if err != nil {
			return nil, err
		}
		defer sandbox.Pause(ctx)()
		return do(ctx, c, id, r)
	})
}

func workloadSignal(ctx context.Context, c *call, id string, r *wasmnodev1.WorkloadSignalRequest) (Message, error) {
	return &wasmnodev1.WorkloadSignalResponse{}, c.plugin.host.cfg.Workloads.Signal(ctx, id, r.Signal)
}

func workloadStop(ctx context.Context, c *call, id string, r *wasmnodev1.WorkloadStopRequest) (Message, error) {
	if r.TimeoutMs < 0 || milliseconds(r.TimeoutMs) > longestStop {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("timeout_ms of %d: from 0 to %d are possible", r.TimeoutMs, longestStop.Milliseconds()))
	}
	return &wasmnodev1.WorkloadStopResponse{}, c.plugin.host.cfg.Workloads.Stop(ctx, id, r.Signal, milliseconds(r.TimeoutMs))
}

func workloadWait(ctx context.Context, c *call, id string, r *wasmnodev1.WorkloadWaitRequest) (Message, error) {
	if err := waitFor(ctx, c.plugin.host.cfg.Workloads, id, r.TimeoutMs); err != nil {
		return nil, err
	}
	s, err := c.plugin.host.cfg.Workloads.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return &wasmnodev1.WorkloadWaitResponse{Result: exitMessage(s)}, nil
}

// waitFor waits for a workload's end, for so many milliseconds; 0: not at all, less: as long as
// ctx lasts. That it runs still is no error.
func waitFor(ctx context.Context, workloads workload.Runtime, id string, timeout int64) error {
	if timeout == 0 {
		return nil
	}
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, milliseconds(timeout))
		defer cancel()
	}
	_, err := workloads.Wait(limited, id)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

func workloadStats(ctx context.Context, c *call, id string, _ *wasmnodev1.WorkloadStatsRequest) (Message, error) {
	s, err := c.plugin.host.cfg.Workloads.Stats(ctx, id)
	if err != nil {
		return nil, err
	}
	return &wasmnodev1.WorkloadStatsResponse{Stats: StatsMessage(s)}, nil
}

func workloadInspect(ctx context.Context, c *call, id string, _ *wasmnodev1.WorkloadInspectRequest) (Message, error) {
	s, err := c.plugin.host.cfg.Workloads.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	answer := &wasmnodev1.WorkloadInspectResponse{StartedAtNs: s.StartedAt.UnixNano(), Result: exitMessage(s)}
	if s.Exit != nil {
		answer.ExitedAtNs = s.ExitedAt.UnixNano()
	}
	return answer, nil
}

// exitMessage is how a workload ended; nil: it runs.
func exitMessage(s *workload.Status) *wasmnodev1.ExitResult {
	if s.Exit == nil {
		return nil
	}
	return &wasmnodev1.ExitResult{ExitCode: int32(s.Exit.ExitCode), Signal: int32(s.Exit.Signal), OomKilled: s.Exit.OOMKilled, Error: s.Exit.Err}
}

// StatsMessage is what a workload uses, for a plugin and for what the node does in its place.
func StatsMessage(s *workload.Stats) *wasmnodev1.TaskStats {
	stats := &wasmnodev1.TaskStats{TimeNs: s.Time.UnixNano(), MemoryRssBytes: s.MemoryBytes, MemoryMaxBytes: s.MemoryMaxBytes}
	stats.CpuTotalNs, stats.CpuUserNs, stats.CpuSystemNs = nanoseconds(s.CPUTotal), nanoseconds(s.CPUUser), nanoseconds(s.CPUSystem)
	return stats
}

func nanoseconds(d *time.Duration) *uint64 {
	if d == nil {
		return nil
	}
	return new(uint64(max(0, *d)))
}

// workloadExec runs a command in a workload to its end, if it may be started.
func workloadExec(ctx context.Context, c *call, id string, r *wasmnodev1.WorkloadExecRequest) (Message, error) {
	if err := checkCommand(r); err != nil {
		return nil, err
	}
	s := c.plugin.pool.settings()
	if s == nil || !s.grants.Process.command(r.Command) {
		command := plaintext.Line(r.Command, 256)
		return nil, notGranted("command "+command, processFix(c.plugin.Name(), fmt.Sprintf("commands = [%q]", command)))
	}
	giveBack, err := c.plugin.helpers.take()
	if err != nil {
		return nil, err
	}
	defer giveBack()
	answer, err := c.plugin.host.runCommand(ctx, id, r)
	c.plugin.counters.helped(err)
	return answer, err
}

// checkCommand refuses what is beyond a bound, or leaves open which program is meant.
func checkCommand(r *wasmnodev1.WorkloadExecRequest) error {
	if !path.IsAbs(r.Command) || path.Clean(r.Command) != r.Command || strings.ContainsRune(r.Command, 0) {
		return invalidRun("the command: %s is not the absolute path of a program", plaintext.Line(r.Command, 256))
	}
	return checkRun(r)
}

// runCommand runs what was granted. The guest waits.
func (h *Host) runCommand(ctx context.Context, id string, r *wasmnodev1.WorkloadExecRequest) (Message, error) {
	l := runLimitsOf(r)
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	exit, err := h.cfg.Workloads.Exec(limited, id, &workload.ExecSpec{
		Command: r.Command, Args: r.Args, Stdin: bytes.NewReader(r.Stdin), Stdout: l.stdout, Stderr: l.stderr,
	})
	if err != nil {
		return nil, l.failure(ctx, err, "command "+r.Command)
	}
	return &wasmnodev1.WorkloadExecResponse{
		ExitCode: int32(exit.ExitCode), Signal: int32(exit.Signal),
		Stdout: l.stdout.kept, StdoutCut: l.stdout.cut, Stderr: l.stderr.kept, StderrCut: l.stderr.cut,
	}, nil
}

// workloadName is what a workload beside the task's own may be called.
var workloadName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// namedID is the ID of a task's workload; no name: that of its own.
func namedID(task, name string) (string, error) {
	switch {
	case name == "":
		return task, nil
	case !workloadName.MatchString(name):
		return "", abi.NewError(abi.InvalidArgument, fmt.Sprintf(
			"name %q of a workload: it begins with a lower-case letter and has 32 of those, digits and '-' at most", plaintext.Line(name, 64)))
	}
	return task + "/" + name, nil
}

// standBeside makes the spec of a task's own workload that of one beside it, if there is a name.
func standBeside(spec *workload.Spec, name string) error {
	id, err := namedID(spec.ID, name)
	if err != nil || name == "" {
		return err
	}
	spec.ID, spec.Beside = id, spec.ID
	spec.Logs.StdoutPath += "." + name
	spec.Logs.StderrPath += "." + name
	return nil
}
