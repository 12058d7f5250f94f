package taskenv

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Dirs are the three directories that a task has variables for, as the task sees them.
type Dirs struct {
	Alloc   string
	Task    string
	Secrets string
}

// IsolatedDirs is what a task sees whose driver gives it a root of its own.
var IsolatedDirs = Dirs{Alloc: "/alloc", Task: "/local", Secrets: "/secrets"}

// Network is the address of a task whose driver gives it one of its own.
type Network struct {
	IP      string
	PortMap map[string]int // label -> port in the task
}

// Builder collects what makes a task's environment. Later sources win over earlier
// ones: the machine's, Nomad's own variables and meta, then the task's, the hooks' in the order
// in which they were first set, the templates'.
// It is not safe for concurrent use; the [Env] that it builds is.
type Builder struct {
	node  *structs.Node
	alloc *structs.Allocation
	task  *nomad.Task

	host      map[string]string
	dirs      Dirs
	network   *Network
	own       *structs.AllocNetwork
	hooks     map[string]map[string]string
	hookOrder []string
	devices   map[string]string
	template  map[string]string

	built *Env // of what is set; nil: something was set since
}

// NewBuilder starts the environment of a task of an allocation on a node.
func NewBuilder(node *structs.Node, alloc *structs.Allocation, task *nomad.Task) *Builder {
	return &Builder{node: node, alloc: alloc, task: task, hooks: map[string]map[string]string{}}
}

// SetHostEnv sets what the task has of the machine's environment where nothing else sets it.
func (b *Builder) SetHostEnv(env map[string]string) *Builder {
	b.built = nil
	b.host = env
	return b
}

// SetDirs sets the directories, as the task sees them; empty ones have no variable.
func (b *Builder) SetDirs(d Dirs) *Builder {
	b.built = nil
	b.dirs = d
	return b
}

// SetNetwork sets the address that the driver gave the task; nil: none.
func (b *Builder) SetNetwork(n *Network) *Builder {
	b.built = nil
	b.network = n
	return b
}

// SetAllocNetwork sets the network that the allocation has for itself; nil: the node's.
func (b *Builder) SetAllocNetwork(n *structs.AllocNetwork) *Builder {
	b.built = nil
	b.own = n
	return b
}

// SetHookEnv sets what one hook adds, in place of what it added before.
func (b *Builder) SetHookEnv(hook string, env map[string]string) *Builder {
	b.built = nil
	if _, known := b.hooks[hook]; !known {
		b.hookOrder = append(b.hookOrder, hook)
	}
	b.hooks[hook] = maps.Clone(env)
	return b
}

// SetDeviceEnv sets what the devices hook adds. It counts as a hook's, and is kept
// apart by [Env.Devices].
func (b *Builder) SetDeviceEnv(hook string, env map[string]string) *Builder {
	b.devices = maps.Clone(env)
	return b.SetHookEnv(hook, env)
}

// SetTemplateEnv sets what templates add.
func (b *Builder) SetTemplateEnv(env map[string]string) *Builder {
	b.built = nil
	b.template = maps.Clone(env)
	return b
}

// Build makes the environment of all that was set. As long as nothing else is set, it is
// the same one.
func (b *Builder) Build() *Env {
	if b.built == nil {
		b.built = b.build()
	}
	return b.built
}

func (b *Builder) build() *Env {
	e := &Env{vars: map[string]string{}, node: b.node, devices: maps.Clone(b.devices)}
	b.addDirs(e)
	b.addResources(e)
	b.addIdentity(e)
	b.addPorts(e)
	b.addMeta(e)
	b.addHost(e)
	e.overlay(b.task.Env)
	for _, hook := range b.hookOrder {
		e.overlay(b.hooks[hook])
	}
	maps.Copy(e.vars, b.template)
	e.clean()
	return e
}

// overlay adds variables whose values may refer to the node and to what is set so far.
func (e *Env) overlay(env map[string]string) {
	replaced := make(map[string]string, len(env))
	for name, value := range env {
		replaced[e.Replace(name)] = e.Replace(value)
	}
	maps.Copy(e.vars, replaced)
}

// clean makes every name one that a process can have. A name that was written so wins
// over one that comes out of cleaning, and of two that clean to the same, the first.
func (e *Env) clean() {
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		c := cleanName(name)
		if c == name {
			continue
		}
		if _, taken := e.vars[c]; !taken {
			e.vars[c] = e.vars[name]
		}
		delete(e.vars, name)
	}
}

func (e *Env) set(name, value string) {
	if value != "" {
		e.vars[name] = value
	}
}

func (e *Env) setNumber(name string, n int) {
	if n > 0 {
		e.vars[name] = strconv.Itoa(n)
	}
}

func (b *Builder) addDirs(e *Env) {
	e.set(AllocDir, b.dirs.Alloc)
	e.set(TaskDir, b.dirs.Task)
	e.set(SecretsDir, b.dirs.Secrets)
}

func (b *Builder) addResources(e *Env) {
	r := b.alloc.Resources.Tasks[b.task.Name]
	if r == nil {
		return
	}
	e.setNumber(MemoryLimit, r.MemoryMB)
	e.setNumber(MemoryMaxLimit, r.MemoryMaxMB)
	if r.MemoryMaxMB == structs.MemoryUnlimited {
		e.vars[MemoryMaxLimit] = strconv.Itoa(structs.MemoryUnlimited)
	}
	e.setNumber(CPULimit, r.CPUMHz)
	e.set(CPUCores, coreSet(r.Cores))
}

func (b *Builder) addIdentity(e *Env) {
	a := b.alloc
	e.set(AllocID, a.ID)
	e.set(ShortAllocID, a.ID[:min(8, len(a.ID))])
	e.set(AllocName, a.Name)
	e.set(AllocIndex, indexOf(a.Name))
	e.set(TaskName, b.task.Name)
	e.set(GroupName, a.TaskGroup)
	e.set(JobID, a.JobID)
	e.set(Namespace, a.Namespace)
	e.set(Datacenter, b.node.Datacenter)
	e.set(Region, b.node.Region)
	if a.Job != nil {
		e.set(JobName, structs.Deref(a.Job.Name))
		e.set(JobParentID, structs.Deref(a.Job.ParentID))
	}
}

// indexOf is N of "job.group[N]"; empty when there is none.
func indexOf(name string) string {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || !strings.HasSuffix(name, "]") {
		return ""
	}
	return name[open+1 : len(name)-1]
}

// coreSet writes cores as Linux does: "0-2,7".
func coreSet(cores []int) string {
	cores = slices.Compact(slices.Sorted(slices.Values(cores)))
	var out []string
	for i := 0; i < len(cores); {
		j := i
		for j+1 < len(cores) && cores[j+1] == cores[j]+1 {
			j++
		}
		text := strconv.Itoa(cores[i])
		if j > i {
			text += "-" + strconv.Itoa(cores[j])
		}
		out = append(out, text)
		i = j + 1
	}
	return strings.Join(out, ",")
}

// addPorts sets the variables of each port: where it is on the host, and which port the task itself
// is to listen on.
func (b *Builder) addPorts(e *Env) {
	for _, p := range b.alloc.Resources.Ports {
		host, inside := strconv.Itoa(p.Value), p.Value
		if p.To > 0 {
			inside = p.To
		}
		ip := p.HostIP
		if b.network != nil {
			if mapped := b.network.PortMap[p.Label]; mapped > 0 {
				inside = mapped
			}
		}
		addr := net.JoinHostPort(ip, host)
		e.set(prefixIP+p.Label, ip)
		e.set(prefixPort+p.Label, strconv.Itoa(inside))
		e.set(prefixAddr+p.Label, addr)
		e.set(prefixHostPort+p.Label, host)
		e.set(prefixHostIP+p.Label, ip)
		e.set(prefixHostAddr+p.Label, addr)
		e.set(prefixAllocPort+p.Label, strconv.Itoa(inside))
		b.addOwnAddress(e, p.Label, inside)
		switch parsed := net.ParseIP(ip); {
		case parsed == nil:
		case parsed.To4() != nil:
			e.set(prefixIPv4+p.Label, ip)
		default:
			e.set(prefixIPv6+p.Label, ip)
		}
	}
}

// addOwnAddress tells where a port is in the allocation's own network.
func (b *Builder) addOwnAddress(e *Env, label string, port int) {
	if b.own == nil || b.own.Address == "" && b.own.AddressIPv6 == "" {
		return
	}
	ip := cmp.Or(b.own.Address, b.own.AddressIPv6)
	e.set(prefixAllocInterface+label, b.own.Interface)
	e.set(prefixAllocIP+label, ip)
	e.set(prefixAllocAddr+label, net.JoinHostPort(ip, strconv.Itoa(port)))
}

// addHost fills in what the machine has. Its values are taken as they are.
func (b *Builder) addHost(e *Env) {
	for name, value := range b.host {
		if _, set := e.vars[name]; !set {
			e.vars[name] = value
		}
	}
}

// addMeta sets the variables of the job's, the group's and the task's meta, each winning over the one
// before, under the key as it is written and in capitals. Their values may refer to the node
// and to the variables before. Keys that a dispatched job may have and has not are set empty.
func (b *Builder) addMeta(e *Env) {
	meta := map[string]string{}
	if job := b.alloc.Job; job != nil {
		if job.ParameterizedJob != nil {
			for _, key := range job.ParameterizedJob.MetaOptional {
				meta[key] = ""
			}
		}
		maps.Copy(meta, job.Meta)
	}
	if group := b.alloc.Group(); group != nil {
		maps.Copy(meta, group.Meta)
	}
	maps.Copy(meta, b.task.Meta)
	for key, value := range meta {
		meta[key] = e.Replace(value)
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		e.vars[prefixMeta+strings.ToUpper(key)] = meta[key]
		e.vars[prefixMeta+key] = meta[key]
	}
}
