package host

import (
	"fmt"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/namespace"
)

// The bounds of a list of processors: the text's, and the highest number that the system's own
// sets of them have.
const (
	maxCpuset = 1024
	maxCore   = 1023
)

// coresOf are the processors that a process begins on; none: all. A driver chooses among those
// that its task may have, so that no grant is needed.
func coresOf(cpuset string, task *wasmnodev1.Resources) ([]uint32, error) {
	if cpuset == "" {
		return task.GetCores(), nil
	}
	shown := plaintext.Line(cpuset, 64)
	if len(cpuset) > maxCpuset {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("a cpuset of %d bytes, the limit is %d", len(cpuset), maxCpuset))
	}
	asked, err := structs.ParseRanges(cpuset, 0, maxCore)
	if err == nil && len(asked) == 0 {
		err = fmt.Errorf("it has no number")
	}
	if err != nil {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("cpuset %q: %v", shown, err))
	}
	allowed, err := coresAllowed(task)
	if err != nil {
		return nil, err
	}
	var cores []uint32
	for _, core := range asked.Below(maxCore + 1) {
		if !allowed.Has(core) {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("cpuset %q: the task may not use core %d: it may use %s", shown, core, allowed))
		}
		cores = append(cores, uint32(core))
	}
	return cores, nil
}

// coresAllowed are the processors that a task may have: its own, or those that are nobody's.
func coresAllowed(task *wasmnodev1.Resources) (structs.Ranges, error) {
	if len(task.GetCores()) > 0 {
		return structs.RangesOf(task.GetCores()), nil
	}
	allowed, err := structs.ParseRanges(task.GetCpuset(), 0, maxCore)
	if err != nil || len(allowed) == 0 {
		return nil, abi.NewError(abi.FailedPrecondition, "a cpuset: which cores the task may use is not known, as it was started by an earlier version or all are reserved")
	}
	return allowed, nil
}

// setNetwork is where a driver's choice of a network is judged. A namespace that it names stays
// open until it is released, so that none that comes later can be taken for it.
func (p *Plugin) setNetwork(w *workload.Process, r *wasmnodev1.ProcessStartRequest, own string, g ProcessGrant) (release func(), err error) {
	release = func() {}
	w.Network = own
	if named := r.Network == wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NAMESPACE; named != (r.NetworkNamespace != "") {
		return release, abi.NewError(abi.InvalidArgument, "network_namespace goes with PROCESS_NETWORK_NAMESPACE, and that with it")
	}
	switch r.Network {
	case wasmnodev1.ProcessNetwork_PROCESS_NETWORK_UNSPECIFIED:
	case wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NONE:
		w.Network = workload.NoNetwork
	case wasmnodev1.ProcessNetwork_PROCESS_NETWORK_HOST:
		if own != "" && !g.HostNetwork {
			return release, deniedHostNetwork(p.Name(), g)
		}
		w.Network = ""
	case wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NAMESPACE:
		if r.NetworkNamespace == own {
			return release, nil
		}
		return p.enterNamespace(w, r.NetworkNamespace)
	default:
		return release, abi.NewError(abi.InvalidArgument, fmt.Sprintf("unknown network %d", r.Network))
	}
	return release, nil
}

// enterNamespace has a process begin in a network namespace that was granted.
func (p *Plugin) enterNamespace(w *workload.Process, path string) (release func(), err error) {
	f, err := p.OpenNamespace(path)
	if err != nil {
		return func() {}, err
	}
	w.Network = f.Name()
	if w.NetworkID, err = namespace.ID(f); err != nil {
		_ = f.Close() // nothing was written to it
		return func() {}, abi.NewError(abi.FailedPrecondition, err.Error())
	}
	return func() { _ = f.Close() }, nil // nothing was written to it
}

// deniedHostNetwork refuses the node's network, and names the missing grant, if one can give it.
func deniedHostNetwork(plugin string, g ProcessGrant) error {
	const what = "the node's network, for a process whose task has its own,"
	if g.isolated() {
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("%s is refused by isolation = %q, with which it cannot be granted", what, g.Isolation))
	}
	return notGranted(what, processFix(plugin, "host_network = true"))
}
