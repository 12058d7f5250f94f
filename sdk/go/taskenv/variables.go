package taskenv

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// More is what a node knows and [wasmnodev1.TaskConfig] does not have.
type More struct {
	// Isolated: the driver's tasks have a root of their own, and see their directories there.
	Isolated bool
	// AllocName is such as "job.group[0]".
	AllocName          string
	Datacenter, Region string
	// Meta is the job's, the group's and the task's, the last one winning.
	Meta map[string]string
}

// Variables are the NOMAD_ variables of a task, with the values that a node gives them before the
// job file, devices and templates add theirs. That a task may have all memory of its node is in no
// TaskConfig: NOMAD_MEMORY_MAX_LIMIT is what the node has then, and on a node -1.
func Variables(t *wasmnodev1.TaskConfig, m More) map[string]string {
	v := variables{}
	v.directories(t.GetDirectories(), m.Isolated)
	v.resources(t.GetResources())
	v.identity(t, m)
	for _, p := range t.GetPorts() {
		v.port(p, t.GetNetwork())
	}
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		v["NOMAD_META_"+strings.ToUpper(key)] = m.Meta[key]
		v["NOMAD_META_"+key] = m.Meta[key]
	}
	v.clean()
	return v
}

type variables map[string]string

// set sets a variable that is not there when it is empty.
func (v variables) set(name, value string) {
	if value != "" {
		v[name] = value
	}
}

// number sets a variable that is not there when it is 0.
func (v variables) number(name string, n uint64) {
	if n > 0 {
		v[name] = strconv.FormatUint(n, 10)
	}
}

func (v variables) directories(d *wasmnodev1.TaskDirectories, isolated bool) {
	if isolated {
		d = &wasmnodev1.TaskDirectories{Shared: "/alloc", Local: "/local", Secrets: "/secrets"}
	}
	v.set("NOMAD_ALLOC_DIR", d.GetShared())
	v.set("NOMAD_TASK_DIR", d.GetLocal())
	v.set("NOMAD_SECRETS_DIR", d.GetSecrets())
}

func (v variables) resources(r *wasmnodev1.Resources) {
	const mebibyte = 1 << 20
	v.number("NOMAD_MEMORY_LIMIT", r.GetMemoryBytes()/mebibyte)
	v.number("NOMAD_MEMORY_MAX_LIMIT", r.GetMemoryMaxBytes()/mebibyte)
	v.number("NOMAD_CPU_LIMIT", r.GetCpuMhz())
	v.set("NOMAD_CPU_CORES", ranges(r.GetCores()))
}

// ranges writes cores as Linux does: "0-2,7".
func ranges(cores []uint32) string {
	cores = slices.Compact(slices.Sorted(slices.Values(cores)))
	var out []string
	for len(cores) > 0 {
		n := 1
		for n < len(cores) && cores[n] == cores[n-1]+1 {
			n++
		}
		text := strconv.FormatUint(uint64(cores[0]), 10)
		if n > 1 {
			text += "-" + strconv.FormatUint(uint64(cores[n-1]), 10)
		}
		out, cores = append(out, text), cores[n:]
	}
	return strings.Join(out, ",")
}

func (v variables) identity(t *wasmnodev1.TaskConfig, m More) {
	id := t.GetAllocId()
	v.set("NOMAD_ALLOC_ID", id)
	v.set("NOMAD_SHORT_ALLOC_ID", id[:min(8, len(id))])
	v.set("NOMAD_ALLOC_NAME", m.AllocName)
	if open := strings.LastIndexByte(m.AllocName, '['); open >= 0 && strings.HasSuffix(m.AllocName, "]") {
		v.set("NOMAD_ALLOC_INDEX", m.AllocName[open+1:len(m.AllocName)-1])
	}
	v.set("NOMAD_TASK_NAME", t.GetName())
	v.set("NOMAD_GROUP_NAME", t.GetTaskGroupName())
	v.set("NOMAD_JOB_ID", t.GetJobId())
	v.set("NOMAD_JOB_NAME", t.GetJobName())
	v.set("NOMAD_JOB_PARENT_ID", t.GetParentJobId())
	v.set("NOMAD_NAMESPACE", t.GetNamespace())
	v.set("NOMAD_DC", m.Datacenter)
	v.set("NOMAD_REGION", m.Region)
}

// port says where a port is on the host, and which one the task listens on.
func (v variables) port(p *wasmnodev1.Port, own *wasmnodev1.TaskNetwork) {
	label, ip, host, inside := p.GetLabel(), p.GetHostIp(), p.GetHostPort(), p.GetTaskPort()
	if inside == 0 {
		inside = host
	}
	v.set("NOMAD_IP_"+label, ip)
	v.set("NOMAD_PORT_"+label, decimal(inside))
	v.set("NOMAD_ADDR_"+label, address(ip, host))
	v.set("NOMAD_HOST_PORT_"+label, decimal(host))
	v.set("NOMAD_HOST_IP_"+label, ip)
	v.set("NOMAD_HOST_ADDR_"+label, address(ip, host))
	v.set("NOMAD_ALLOC_PORT_"+label, decimal(inside))
	if own.GetIp() != "" {
		v.set("NOMAD_ALLOC_INTERFACE_"+label, own.GetInterface())
		v.set("NOMAD_ALLOC_IP_"+label, own.GetIp())
		v.set("NOMAD_ALLOC_ADDR_"+label, address(own.GetIp(), inside))
	}
	switch parsed, err := netip.ParseAddr(ip); {
	case err != nil || parsed.Zone() != "":
	case parsed.Unmap().Is4():
		v.set("NOMAD_IPv4_"+label, ip)
	default:
		v.set("NOMAD_IPv6_"+label, ip)
	}
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func address(ip string, port uint32) string {
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip + ":" + decimal(port)
}

// clean makes each name one that a process can have. A name that was written so wins over one that
// comes out of cleaning, and of two that clean to the same, the first.
func (v variables) clean() {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if c := clean(name); c != name {
			if _, taken := v[c]; !taken {
				v[c] = v[name]
			}
			delete(v, name)
		}
	}
}
