package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
)

// The bounds of a helper: what it has that asks for nothing, and the most that it can ask for.
const (
	helperTime, mostHelperTime     = 10 * time.Second, 5 * time.Minute
	helperMemory, mostHelperMemory = 256 << 20, 2 << 30
	leastHelperMemory              = 4 << 20
	helperOutput, mostHelperOutput = 64 << 10, 1 << 20
	mostHelperArguments            = 256
)

// The bounds of a plugin's helpers: a driver asks its engine's program a question now and then,
// and for each of many tasks at the same time when the agent starts.
const (
	helpersAtOnce    = 8
	helpersPerSecond = 10
	helperBurst      = 50
)

// helperPath is where a helper finds programs whose grant has no PATH.
const helperPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// helperBounds are those that a plugin's helpers share.
type helperBounds struct {
	running chan struct{} // one for each
	rate    *rate.Limiter
}

func newHelperBounds() helperBounds {
	return helperBounds{make(chan struct{}, helpersAtOnce), rate.NewLimiter(helpersPerSecond, helperBurst)}
}

// take takes a place for a helper, which is to be given back.
func (b helperBounds) take() (giveBack func(), err error) {
	if !b.rate.Allow() {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("more than %d helpers a second", helpersPerSecond))
	}
	select {
	case b.running <- struct{}{}:
		return func() { <-b.running }, nil
	default:
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("%d helpers run, which is the limit", helpersAtOnce))
	}
}

// processRun runs a helper to its end, if it is granted.
func processRun(ctx context.Context, c *call, request []byte) (Message, error) {
	r := &wasmnodev1.ProcessRunRequest{}
	if err := decode(request, r); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not a ProcessRunRequest message")
	}
	s := c.plugin.pool.settings()
	switch {
	case s == nil:
		return nil, abi.NewError(abi.PermissionDenied, "helpers: not before the plugin is configured")
	case c.op == abi.ExportInitialize:
		return nil, abi.NewError(abi.FailedPrecondition, "helpers: not in the initialiser")
	case len(s.grants.Process.Helpers) == 0 && checkHelper(r) != nil: // no grant would permit it as it is
		return nil, lacking(noHelpers(c.plugin.Name()))
	}
	if err := checkHelper(r); err != nil {
		return nil, err
	}
	granted := s.grants.Process.helper(r.Command, r.Args)
	if granted == nil {
		return nil, deniedHelper(c.plugin.Name(), r.Command, r.Args)
	}
	giveBack, err := c.plugin.helpers.take()
	if err != nil {
		return nil, err
	}
	defer giveBack()
	defer sandbox.Pause(ctx)()
	answer, err := c.plugin.host.runHelper(ctx, r, granted)
	c.plugin.counters.helped(err)
	return answer, err
}

// checkHelper refuses what is beyond a bound.
func checkHelper(r *wasmnodev1.ProcessRunRequest) error {
	switch {
	case grantsyntax.Program(r.Command) != nil:
		return invalidRun("the command of a helper: %s is not the absolute path of a program", plaintext.Line(r.Command, 256))
	case r.MemoryMaxBytes != 0 && (r.MemoryMaxBytes < leastHelperMemory || r.MemoryMaxBytes > mostHelperMemory):
		return invalidRun("memory_max_bytes of %d: from %d to %d are possible", r.MemoryMaxBytes, leastHelperMemory, mostHelperMemory)
	}
	return checkRun(r)
}

func invalidRun(format string, args ...any) error {
	return abi.NewError(abi.InvalidArgument, fmt.Sprintf(format, args...))
}

// limitedRun is what a helper and a command in a workload are asked for alike.
type limitedRun interface {
	GetCommand() string
	GetArgs() []string
	GetTimeoutMs() int64
	GetOutputMaxBytes() uint64
}

// checkRun refuses what is beyond a bound of both.
func checkRun(r limitedRun) error {
	hasZero := func(s string) bool { return strings.ContainsRune(s, 0) }
	switch {
	case len(r.GetArgs()) > mostHelperArguments:
		return invalidRun("%d arguments, the limit is %d", len(r.GetArgs()), mostHelperArguments)
	case slices.ContainsFunc(r.GetArgs(), hasZero):
		return invalidRun("an argument has a zero byte")
	case r.GetTimeoutMs() < 0 || milliseconds(r.GetTimeoutMs()) > mostHelperTime:
		return invalidRun("timeout_ms of %d: the limit is %d", r.GetTimeoutMs(), mostHelperTime.Milliseconds())
	case r.GetOutputMaxBytes() > mostHelperOutput:
		return invalidRun("output_max_bytes of %d: the limit is %d", r.GetOutputMaxBytes(), mostHelperOutput)
	}
	return nil
}

// runLimits are the bounds of a run: its time, and how much of what it writes is kept.
type runLimits struct {
	timeout        time.Duration
	stdout, stderr *firstBytes
}

func runLimitsOf(r limitedRun) runLimits {
	most := int(cmp.Or(r.GetOutputMaxBytes(), helperOutput))
	return runLimits{cmp.Or(milliseconds(r.GetTimeoutMs()), helperTime), &firstBytes{most: most}, &firstBytes{most: most}}
}

// failure is what the guest is told when a run failed whose call has a context.
func (l runLimits) failure(ctx context.Context, err error, what string) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return abi.NewRecoverableError(abi.DeadlineExceeded, fmt.Sprintf("%s ran for more than %v", what, l.timeout))
	}
	return err
}

// runHelper runs what was granted. The guest waits.
func (h *Host) runHelper(ctx context.Context, r *wasmnodev1.ProcessRunRequest, granted *HelperGrant) (Message, error) {
	l := runLimitsOf(r)
	helper := &workload.Helper{
		Command: r.Command, Args: r.Args, Env: map[string]string{"PATH": helperPath}, User: granted.User,
		MemoryMaxBytes: cmp.Or(r.MemoryMaxBytes, helperMemory), Stdout: l.stdout, Stderr: l.stderr,
	}
	maps.Copy(helper.Env, granted.Env)
	if len(r.Stdin) > 0 {
		helper.Stdin = bytes.NewReader(r.Stdin)
	}
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	exit, err := h.cfg.Workloads.Run(limited, helper)
	if err != nil {
		return nil, l.failure(ctx, err, "helper "+r.Command)
	}
	return &wasmnodev1.ProcessRunResponse{
		ExitCode: int32(exit.ExitCode), Signal: int32(exit.Signal), OomKilled: exit.OOMKilled,
		Stdout: l.stdout.kept, StdoutCut: l.stdout.cut, Stderr: l.stderr.kept, StderrCut: l.stderr.cut,
	}, nil
}

// firstBytes keeps the first bytes of what is written.
type firstBytes struct {
	most int
	kept []byte
	cut  bool
}

// Write implements [io.Writer].
func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.most-len(f.kept))
	f.kept = append(f.kept, p[:n]...)
	f.cut = f.cut || n < len(p)
	return len(p), nil
}
