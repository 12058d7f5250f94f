package task

import (
	"cmp"
	"fmt"
	"math"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

const mebibyte = 1 << 20

// config is all that the driver is given of an invocation.
func (r *Runner) config(alloc *structs.Allocation, task *nomad.Task, env *taskenv.Env, driver Driver) (*wasmnodev1.TaskConfig, error) {
	network, err := r.network(driver)
	if err != nil {
		return nil, err
	}
	driverConfig, err := driver.DecodeConfig(env.ReplaceConfig(task.Config))
	if err != nil {
		return nil, err
	}
	mounts, devices := r.mounts()
	resolver, err := r.resolver(alloc, env, driver)
	if err != nil {
		return nil, err
	}
	if resolver != nil {
		mounts = append(mounts, resolver)
	}
	dir := r.cfg.Dir
	cfg := &wasmnodev1.TaskConfig{
		Id:            newTaskID(alloc.ID, task.Name),
		Name:          task.Name,
		AllocId:       alloc.ID,
		JobId:         alloc.JobID,
		TaskGroupName: alloc.TaskGroup,
		Namespace:     alloc.Namespace,
		NodeName:      r.cfg.Node().Name,
		NodeId:        r.cfg.Node().ID,
		Env:           env.Map(),
		DeviceEnv:     env.Devices(),
		User:          env.Replace(task.User),
		Resources:     r.resourcesMessage(alloc),
		Directories: &wasmnodev1.TaskDirectories{
			Alloc: dir.Alloc.Path(), Shared: dir.Alloc.Shared(), Task: dir.Path,
			Local: dir.Local, Secrets: dir.Secrets, Logs: dir.Alloc.Logs(),
		},
		StdoutPath:   logPath(dir, "stdout"),
		StderrPath:   logPath(dir, "stderr"),
		Mounts:       mounts,
		Devices:      devices,
		Ports:        portsOf(alloc),
		DriverConfig: driverConfig,
		Log:          logConfig(task),
		Network:      network,
	}
	if job := alloc.Job; job != nil {
		cfg.JobName, cfg.ParentJobId = structs.Deref(job.Name), structs.Deref(job.ParentID)
	}
	return cfg, nil
}

// network is the allocation's own, which the driver has to be able to use; nil: the node's.
func (r *Runner) network(driver Driver) (*wasmnodev1.TaskNetwork, error) {
	own := r.ownNetwork()
	switch {
	case own == nil:
		return nil, nil
	case !driver.Capabilities().GetNetworkNamespaces():
		return nil, fmt.Errorf("driver %q cannot run tasks in a network of mode %q: it describes no network_namespaces", driver.Name(), own.Mode)
	}
	return &wasmnodev1.TaskNetwork{Mode: own.Mode, Namespace: own.Namespace, Interface: own.Interface, Ip: cmp.Or(own.Address, own.AddressIPv6)}, nil
}

func (r *Runner) ownNetwork() *structs.AllocNetwork {
	if r.cfg.Network == nil {
		return nil
	}
	return r.cfg.Network()
}

// resourcesMessage is what the task was given, and what of the processors it may have.
func (r *Runner) resourcesMessage(alloc *structs.Allocation) *wasmnodev1.Resources {
	node := r.cfg.Node()
	out := resourcesOf(r.resources(alloc), node)
	allowed := structs.RangesOf(out.Cores)
	if len(out.Cores) == 0 {
		taken := map[int]bool{}
		if r.cfg.ReservedCores != nil {
			for _, core := range r.cfg.ReservedCores() {
				taken[core] = true
			}
		}
		var free []int
		for core := range node.Resources.Cores {
			if !taken[core] && !node.ReservedCores.Has(core) {
				free = append(free, core)
			}
		}
		allowed = structs.RangesOf(free)
	}
	out.Cpuset = allowed.String()
	return out
}

func resourcesOf(r *structs.TaskResources, n *structs.Node) *wasmnodev1.Resources {
	most := r.MemoryMaxMB
	if most == structs.MemoryUnlimited {
		most = n.Resources.MemoryMB
	}
	out := &wasmnodev1.Resources{
		CpuMhz:         positive(r.CPUMHz),
		MemoryBytes:    positive(r.MemoryMB) * mebibyte,
		MemoryMaxBytes: positive(most) * mebibyte,
	}
	if all := n.Resources; r.CPUMHz > 0 && all.CPUMHz > 0 {
		out.CpuThousandths = uint32(min((positive(r.CPUMHz)*positive(all.Cores)*1000-1)/positive(all.CPUMHz)+1, math.MaxUint32))
	}
	for _, core := range r.Cores {
		out.Cores = append(out.Cores, uint32(positive(core)))
	}
	return out
}

func portsOf(alloc *structs.Allocation) []*wasmnodev1.Port {
	ports := make([]*wasmnodev1.Port, 0, len(alloc.Resources.Ports))
	for _, p := range alloc.Resources.Ports {
		ports = append(ports, &wasmnodev1.Port{
			Label: p.Label, HostIp: p.HostIP,
			HostPort: uint32(positive(p.Value)), TaskPort: uint32(positive(p.To)),
		})
	}
	return ports
}

func positive(n int) uint64 { return uint64(max(0, n)) }
