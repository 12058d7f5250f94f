package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/descriptor"
	"github.com/wasmnode/wasmnode/workload"
)

// wasmFuncs is wasmnode:wasm/v1: WASI programs as workloads.
var wasmFuncs = map[string]sandbox.HostFunc{
	abi.FuncWasmStart: structured(wasmStart),
}

// wasmStart starts a program as the workload of the task that the call is about. The
// task bounds its identity, its logs and its memory; the plugin chooses the rest,
// within the task's directories and what was granted.
func wasmStart(ctx context.Context, c *call, request []byte) (Message, error) {
	r := &wasmnodev1.WasmStartRequest{}
	if err := decode(request, r); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not a WasmStartRequest message")
	}
	s := c.plugin.pool.settings()
	switch {
	case s == nil:
		return nil, abi.NewError(abi.PermissionDenied, "starting programs: not before the plugin is configured")
	case s.grants.Wasm.Denied:
		return nil, lacking(noPrograms(c.plugin.Name()))
	case c.scope == nil || c.op != abi.OpDriverStartTask && c.op != abi.OpDriverRecoverTask:
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("a program can be started in %s, not in %s", abi.OpDriverStartTask, c.op))
	}
	if err := c.countStart(); err != nil {
		return nil, err
	}
	files := programFilesOf(c, s.grants.Wasm)
	module, err := files.readModule(ctx, r.Module)
	if err != nil {
		return nil, err
	}
	mounts, err := files.mounts(ctx, r.Mounts)
	if err != nil {
		return nil, err
	}
	listen, err := listeners(c.scope.Config, r.Listen)
	if err != nil {
		return nil, err
	}
	stdin, err := files.input(r.Stdin)
	if err != nil {
		return nil, err
	}
	spec := taskSpec(c.scope.Config, r.Env)
	spec.MemoryMaxBytes = memoryFor(c.scope.Config, r.MemoryMaxBytes)
	spec.WASI = &workload.WASIProgram{
		Name: filepath.Base(r.Module), Module: module.Bytes(), Digest: module.Digest(), Args: r.Args, Mounts: mounts, Listen: listen, Network: c.scope.Config.GetNetwork().GetNamespace(), Signals: r.Signals, Stdin: stdin,
	}
	spec.Owner, spec.CPUMHz = c.plugin.Name(), c.scope.Config.GetResources().GetCpuMhz()
	defer sandbox.Pause(ctx)()
	err = c.plugin.host.programs.start(ctx, c.plugin.host.cfg.Workloads, spec, s.grants.Wasm.MaxPrograms)
	c.scope.started(spec, err)
	if err != nil {
		return nil, err
	}
	return &wasmnodev1.WasmStartResponse{WorkloadId: spec.ID}, nil
}

// listeners are where the ports with these labels are on the host, or lead to in a network of
// the group's own. A program listens nowhere else.
func listeners(task *wasmnodev1.TaskConfig, labels []string) (out []workload.Listener, err error) {
	if len(labels) > descriptor.MaxListeners {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("listen: more than %d ports", descriptor.MaxListeners))
	}
	for _, label := range labels {
		i := slices.IndexFunc(task.Ports, func(p *wasmnodev1.Port) bool { return p.Label == label })
		if i < 0 {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf(
				"listen: the group's network has no port %q: add network { port %q {} }", plaintext.Line(label, 256), plaintext.Line(label, 256)))
		}
		p := task.Ports[i]
		ip, port := p.HostIp, p.HostPort
		if own := task.GetNetwork(); own != nil {
			ip, port = anyAddress(own), cmp.Or(p.TaskPort, p.HostPort)
		}
		address, err := netip.ParseAddr(ip)
		if err != nil || port > math.MaxUint16 {
			return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("listen: port %q has no address on the host: %q", label, ip))
		}
		out = append(out, workload.Listener{Name: label, Address: netip.AddrPortFrom(address, uint16(port))})
	}
	return out, nil
}

// anyAddress is every address in a network: the tasks that share it have its loopback
// interface, too.
func anyAddress(network *wasmnodev1.TaskNetwork) string {
	if ip, err := netip.ParseAddr(network.Ip); err == nil && ip.Is6() {
		return netip.IPv6Unspecified().String()
	}
	return netip.IPv4Unspecified().String()
}

// taskSpec is the task's part of a workload's spec, of whatever kind.
func taskSpec(task *wasmnodev1.TaskConfig, env map[string]string) *workload.Spec {
	return &workload.Spec{
		ID:             task.Id,
		Env:            env,
		MemoryMaxBytes: memoryFor(task, 0),
		Logs: workload.Logs{
			StdoutPath:   task.StdoutPath,
			StderrPath:   task.StderrPath,
			MaxFiles:     int(task.GetLog().GetMaxFiles()),
			MaxFileBytes: int64(task.GetLog().GetMaxFileSizeBytes()),
			Disabled:     task.GetLog().GetDisabled(),
		},
	}
}

// memoryFor is the task's limit, or less where the plugin asks for less.
func memoryFor(task *wasmnodev1.TaskConfig, asked uint64) uint64 {
	limit := max(task.GetResources().GetMemoryMaxBytes(), task.GetResources().GetMemoryBytes())
	if asked == 0 {
		return limit
	}
	return min(limit, asked)
}
