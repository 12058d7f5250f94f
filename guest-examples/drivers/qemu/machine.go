package main

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// The sockets of a machine, in the task's directory, which is where the emulator runs.
const (
	monitorSocket = "qmp.sock"
	agentSocket   = "qa.sock"
)

// machine is what a task asks for.
type machine struct {
	emulator    string
	kind        string
	accelerator string
	image       string
	thin        bool
	drive       string // the interface of its drive
	graceful    bool
	agent       bool
	restricted  bool   // it reaches no network
	memory      uint64 // MiB
	cores       int
	forwards    []forward
	args        []string
}

// forward is a port of the network that the emulator is in, which leads to one of the machine's.
type forward struct {
	label string
	ip    string // empty: all addresses
	port  uint32
	guest uint32
}

// machineOf reads a task's configuration and refuses what the operator does not permit.
func (q *qemu) machineOf(task *driver.TaskConfig) (*machine, error) {
	c, err := config.Parse(task.DriverConfig)
	if err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "config: "+err.Error())
	}
	name := architecture(c.Get("emulator").Text())
	if len(q.architectures) > 0 && !slices.Contains(q.architectures, name) {
		return nil, abi.NewError(abi.PermissionDenied, "emulator "+name+" is not in the plugin's emulators_allowlist")
	}
	m := &machine{
		emulator:    emulatorPrefix + name,
		kind:        c.Get("machine_type").Text(),
		accelerator: c.Get("accelerator").Text(),
		thin:        c.Get("use_thin_copy").Bool(),
		drive:       c.Get("drive_interface").Text(),
		graceful:    c.Get("graceful_shutdown").Bool(),
		agent:       c.Get("guest_agent").Bool(),
		restricted:  c.Get("restrict_network").Bool(),
		memory:      task.Resources.MemoryBytes >> 20,
		cores:       len(task.Resources.Cores),
		args:        c.Get("args").Texts(),
	}
	if err := checkOptions(m.args, q.options); err != nil {
		return nil, err
	}
	if m.image, err = q.permittedImage(c.Get("image_path").Text(), task.Directories); err != nil {
		return nil, err
	}
	m.forwards, err = forwards(c.Get("port_map"), task)
	return m, err
}

// forwards reads a port_map: an object, or the list of them that a job file's blocks are. In a
// network of the allocation's own, ports are those that the node's lead to.
func forwards(ports config.Value, task *driver.TaskConfig) (out []forward, err error) {
	maps := ports.Items()
	if ports.Kind() == config.Object {
		maps = []config.Value{ports}
	}
	for _, m := range maps {
		for _, f := range m.Fields() {
			i := slices.IndexFunc(task.Ports, func(p *driver.Port) bool { return p.Label == f.Name })
			if i < 0 {
				return nil, abi.NewError(abi.InvalidArgument, "port_map: the group has no port "+strconv.Quote(f.Name))
			}
			p := task.Ports[i]
			to := forward{label: f.Name, ip: p.HostIp, port: p.HostPort, guest: uint32(f.Value.Int())}
			if task.Network != nil {
				to.ip, to.port = "", cmp.Or(p.TaskPort, p.HostPort)
			}
			if strings.Contains(to.ip, ":") {
				return nil, abi.NewError(abi.InvalidArgument, "port_map: port "+f.Name+" is one of "+p.HostIp+", and only those of IPv4 addresses can be forwarded")
			}
			out = append(out, to)
		}
	}
	return out, nil
}

// network tells the node what is forwarded; nil: nothing is.
func (m *machine) network() *driver.Network {
	if len(m.forwards) == 0 {
		return nil
	}
	n := &driver.Network{PortMap: map[string]uint32{}}
	for _, f := range m.forwards {
		n.PortMap[f.label] = f.guest
	}
	return n
}

// arguments are the emulator's. The serial port is its standard output, and so the task's.
func (m *machine) arguments(d drive) []string {
	args := []string{
		"-machine", "type=" + m.kind + ",accel=" + m.accelerator,
		"-name", value(path.Base(m.image)),
		"-m", strconv.FormatUint(m.memory, 10) + "M",
		"-drive", "file=" + value(d.file) + ",format=" + value(d.format) + ",if=" + m.drive + ",id=image0",
		"-nographic",
	}
	if strings.HasPrefix(m.accelerator, "kvm") {
		args = append(args, "-cpu", "host")
	}
	if m.cores > 0 {
		args = append(args, "-smp", strconv.Itoa(m.cores))
	}
	if m.graceful {
		args = append(args, "-qmp", "unix:"+monitorSocket+",server=on,wait=off")
	}
	if m.agent {
		args = append(args,
			"-chardev", "socket,path="+agentSocket+",server=on,wait=off,id=qga0",
			"-device", "virtio-serial",
			"-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0")
	}
	if len(m.forwards) > 0 || m.restricted {
		netdev := "user,id=user.0"
		if m.restricted {
			netdev += ",restrict=on"
		}
		for _, f := range m.forwards {
			for _, protocol := range []string{"tcp", "udp"} {
				netdev += ",hostfwd=" + protocol + ":" + f.ip + ":" + decimal(f.port) + "-:" + decimal(f.guest)
			}
		}
		args = append(args, "-netdev", netdev, "-device", "virtio-net,netdev=user.0")
	}
	return append(args, m.args...)
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// value writes what stands in a list of options, whose separator is the comma.
func value(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// checkAccelerator refuses one that does not work here: the emulator itself would end at once
// and say so in the task's output only.
func (q *qemu) checkAccelerator(ctx context.Context, m *machine) error {
	if m.accelerator == "tcg" {
		return nil
	}
	_, err := q.run(ctx, m.emulator, []byte(`{"execute":"qmp_capabilities"}{"execute":"quit"}`),
		"-machine", "none,accel="+m.accelerator, "-nodefaults", "-nographic", "-qmp", "stdio")
	if abi.CodeOf(err) == abi.FailedPrecondition {
		return abi.NewError(abi.FailedPrecondition, "accelerator "+m.accelerator+" does not work on this node: "+err.Error())
	}
	return err
}
