package drivertest

import (
	"cmp"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

// The bounds of helpers, see abi/ABI.md.
const (
	maxHelperArguments = 256
	maxHelperMs        = 300_000
	maxHelperOutput    = 1 << 20
)

// What a workload beside the task's own may be called, and how many there may be.
var workloadName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

const maxNamed = 8

// The bounds of mounts, see abi/ABI.md.
const (
	maxMounts    = 1024
	maxMountPath = 4095
)

// processes is what a driver did with processes. It belongs to records, whose lock
// guards it.
type processes struct {
	started     []*process.Command
	refuse      *abi.Error
	fullMissing string
	helpers     []*process.Helper
	runHelper   func(*process.Helper) (*process.Ended, error)
}

// Processes returns the processes that the driver started. They run only after
// [Node.RunProcesses].
func (n *core) Processes() []*process.Command {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return slices.Clone(n.records.processes.started)
}

// RefuseProcess makes every later start of a process fail with err, nil none.
func (n *core) RefuseProcess(err *abi.Error) {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	n.records.processes.refuse = err
}

// LackFullIsolation makes the node one that cannot isolate processes, for that reason;
// with an empty one it can, which is how it begins.
func (n *core) LackFullIsolation(reason string) {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	n.records.processes.fullMissing = reason
}

func (h *callHost) ProcessStart(request []byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	if h.operation != abi.OpDriverStartTask && h.operation != abi.OpDriverRecoverTask {
		return nil, abi.NewError(abi.FailedPrecondition, "start: not in "+h.operation)
	}
	c := new(process.Command)
	if err := c.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "start: "+err.Error())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.checkCommand(c); err != nil {
		return nil, err
	}
	id, err := h.takeName(c.Name)
	if err != nil {
		return nil, err
	}
	if h.real != nil {
		if err := h.runProcess(id, c); err != nil {
			return nil, err
		}
	}
	h.processes.started = append(h.processes.started, c)
	h.workloads.put(id, nil)
	return (&wasmnodev1.ProcessStartResponse{WorkloadId: id}).MarshalVT()
}

// takeName returns the ID of the task's own workload, or of one beside it, that is to start.
func (h *callHost) takeName(name string) (id string, err error) {
	if name == "" {
		if h.started.Swap(true) {
			return "", abi.NewError(abi.AlreadyExists, "start: the task has a workload")
		}
		return h.taskID, nil
	}
	id = h.taskID + "/" + name
	named := 0
	for other := range h.workloads.ended {
		if strings.HasPrefix(other, h.taskID+"/") {
			named++
		}
	}
	_, exists := h.workloads.ended[id]
	switch {
	case !workloadName.MatchString(name):
		return "", abi.NewError(abi.InvalidArgument, "start: "+strconv.Quote(name)+" is not a name: see abi/ABI.md")
	case exists:
		return "", abi.NewError(abi.AlreadyExists, "start: the task has a workload "+name)
	case named == maxNamed:
		return "", abi.NewError(abi.ResourceExhausted, "start: the task has 8 workloads beside its own")
	}
	return id, nil
}

// checkCommand refuses what every node refuses, and what this one was configured to.
func (h *callHost) checkCommand(c *process.Command) error {
	switch {
	case h.processes.refuse != nil:
		return h.processes.refuse
	case c.Command == "":
		return abi.NewError(abi.InvalidArgument, "start: no command")
	case c.Isolation != process.IsolationNone && c.Isolation != process.IsolationFull && c.Isolation != process.IsolationPaths:
		return abi.NewError(abi.InvalidArgument, "start: the isolation is not set")
	case c.Isolation == process.IsolationFull && h.processes.fullMissing != "":
		return abi.NewError(abi.Unimplemented, "isolation full: "+h.processes.fullMissing)
	case !filepath.IsAbs(c.Dir) && !filepath.IsLocal(cmp.Or(c.Dir, ".")):
		return abi.NewError(abi.PermissionDenied, "start: the working directory leads out of the task's")
	}
	if err := checkPlace(c); err != nil {
		return err
	}
	return checkRoot(c)
}

// cpuset is a list of processors, "0-3,6".
var cpuset = regexp.MustCompile(`^\d+(-\d+)?(,\d+(-\d+)?)*$`)

const maxCpuset = 1024

// checkPlace refuses what every node refuses of a network and processors, whatever was granted.
func checkPlace(c *process.Command) error {
	named := c.Network == process.NetworkNamespace
	switch {
	case c.Network < 0 || c.Network > process.NetworkNamespace:
		return abi.NewError(abi.InvalidArgument, "start: an unknown network")
	case named != (c.NetworkNamespace != ""):
		return abi.NewError(abi.InvalidArgument, "start: network_namespace goes with PROCESS_NETWORK_NAMESPACE, and that with it")
	case named && !filepath.IsAbs(c.NetworkNamespace):
		return abi.NewError(abi.InvalidArgument, "start: the network namespace is no absolute path")
	case c.Cpuset != "" && (len(c.Cpuset) > maxCpuset || !cpuset.MatchString(c.Cpuset)):
		return abi.NewError(abi.InvalidArgument, "start: the cpuset is not a list such as 0-3,6 of at most 1,024 bytes")
	}
	return nil
}

// checkRoot refuses what every node refuses of a root and mounts, whatever was granted.
func checkRoot(c *process.Command) error {
	refused := func(why string) error { return abi.NewError(abi.InvalidArgument, "start: "+why) }
	switch {
	case c.Root == "" && len(c.Mounts) == 0 && !c.ReadOnlyRoot:
		return nil
	case c.Isolation != process.IsolationFull:
		return refused("a root and mounts are for processes with full isolation")
	case len(c.Mounts) > maxMounts:
		return refused("beyond a bound of abi/ABI.md")
	case c.Root == "" && c.ReadOnlyRoot:
		return refused("a root that can only be read goes with a root")
	}
	targets := map[string]bool{}
	for _, m := range c.Mounts {
		target := path.Join("/", m.GetTarget())
		first, _, _ := strings.Cut(target[1:], "/")
		switch {
		case len(m.GetTarget()) > maxMountPath || len(m.GetSource()) > maxMountPath:
			return refused("beyond a bound of abi/ABI.md")
		case target == "/" || first == "dev" || first == "proc" || first == "sys":
			return refused("mount at " + target + ", which is the node's to make")
		case m.GetTmpfs() == (m.GetSource() != ""):
			return refused("mount at " + target + ": it has either a source or tmpfs")
		case targets[target]:
			return refused("two mounts at " + target)
		}
		targets[target] = true
	}
	return nil
}

func (h *callHost) ProcessSupport([]byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return (&wasmnodev1.ProcessSupport{FullIsolationMissing: h.processes.fullMissing}).MarshalVT()
}

// OnHelper has run stand for the programs that the driver runs as helpers, whatever was
// granted. Until then they are refused. It may be called concurrently.
func (n *core) OnHelper(run func(h *process.Helper) (*process.Ended, error)) {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	n.records.processes.runHelper = run
}

// Helpers returns the helpers that the driver asked for.
func (n *core) Helpers() []*process.Helper {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	return slices.Clone(n.records.processes.helpers)
}

func (h *callHost) ProcessRun(request []byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	helper := new(process.Helper)
	if err := helper.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "run: "+err.Error())
	}
	h.mu.Lock()
	run := h.processes.runHelper
	h.processes.helpers = append(h.processes.helpers, helper)
	h.mu.Unlock()
	switch {
	case run == nil:
		return nil, abi.NewError(abi.PermissionDenied, "run: "+helper.Command+" is not granted; a test grants by Node.OnHelper")
	case !filepath.IsAbs(helper.Command):
		return nil, abi.NewError(abi.InvalidArgument, "run: the command is not an absolute path")
	case len(helper.Args) > maxHelperArguments || helper.TimeoutMs < 0 || helper.TimeoutMs > maxHelperMs || helper.OutputMaxBytes > maxHelperOutput:
		return nil, abi.NewError(abi.InvalidArgument, "run: beyond a bound of abi/ABI.md")
	}
	ended, err := run(helper)
	if err != nil {
		return nil, err
	}
	return ended.MarshalVT()
}
