// Command usb is the device plugin "usb": what is plugged into the machine's USB ports,
// read from the kernel's tree. A group are the devices of one product: VENDOR/usb/PRODUCT
// with the two IDs in hexadecimal.
package main

import (
	"context"
	_ "embed"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/guest-examples/devices/internal/sysfs"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

//go:embed plugin_schema.json
var pluginSchema string

func init() { device.Serve(&usb{}) }

func main() {}

type usb struct{ tree string } // where the kernel lists USB devices

// gadget is one device.
type gadget struct {
	id   string
	port string // where it is plugged in, such as "1-4.2"
	dir  string
}

func (*usb) Describe() *device.Description {
	return &device.Description{Name: "usb", Version: "0.1.0", PluginConfigSchema: pluginSchema}
}

func (u *usb) Configure(_ context.Context, data []byte) error {
	c, err := config.Parse(data)
	u.tree = path.Join(c.Get("sysfs").Text(), "bus/usb/devices")
	return err
}

func (u *usb) Fingerprint(context.Context) (*device.Fingerprint, error) {
	answer := &device.Fingerprint{NextPollMs: 2000}
	groups := map[string]*device.Group{}
	for _, g := range u.gadgets() {
		id := g.group()
		key := id.Vendor + id.Name
		d := &device.Device{Id: g.id, Healthy: true}
		if sysfs.Read(path.Join(g.dir, "authorized")) == "0" {
			d.Healthy, d.HealthDescription = false, "the kernel is configured not to authorize it"
		}
		if known := groups[key]; known != nil {
			known.Devices = append(known.Devices, d)
			sysfs.Common(known.Attributes, g.attributes())
			continue
		}
		groups[key] = &device.Group{Id: id, Devices: []*device.Device{d}, Attributes: g.attributes()}
		answer.Groups = append(answer.Groups, groups[key])
	}
	return answer, nil
}

// gadgets are the devices that are plugged in, without hubs. What is called an ID never
// becomes another's: it has the port in it, since serial numbers that several devices
// share are common.
func (u *usb) gadgets() (all []gadget) {
	for _, port := range sysfs.Entries(u.tree) {
		g := gadget{port: port, dir: path.Join(u.tree, port)}
		if strings.Contains(port, ":") || sysfs.Read(path.Join(g.dir, "bDeviceClass")) == "09" {
			continue // an interface of a device, or a hub
		}
		if g.read("idVendor") == "" || g.read("idProduct") == "" {
			continue // it was unplugged this moment
		}
		g.id = port
		if serial := g.read("serial"); serial != "" {
			g.id = sysfs.Name(serial, "?") + "@" + port
		}
		all = append(all, g)
	}
	return all
}

func (g gadget) read(file string) string { return sysfs.Read(path.Join(g.dir, file)) }

func (g gadget) group() *device.GroupID {
	return &device.GroupID{Vendor: g.read("idVendor"), Type: "usb", Name: g.read("idProduct")}
}

func (g gadget) attributes() map[string]*device.Attribute {
	all := map[string]*device.Attribute{}
	for name, file := range map[string]string{"manufacturer": "manufacturer", "product": "product", "version": "version", "class": "bDeviceClass"} {
		if text := g.read(file); text != "" {
			all[name] = device.String(text)
		}
	}
	if mbps, ok := sysfs.Int(path.Join(g.dir, "speed")); ok {
		all["speed"] = device.Int(mbps*1000*1000/8, "B/s")
	}
	return all
}

// node is the device's node: /dev/bus/usb/BUS/DEVICE, three digits each.
func (g gadget) node() (string, bool) {
	bus, number := g.read("busnum"), g.read("devnum")
	if bus == "" || number == "" || len(bus) > 3 || len(number) > 3 {
		return "", false
	}
	pad := func(s string) string { return strings.Repeat("0", 3-len(s)) + s }
	return path.Join("/dev/bus/usb", pad(bus), pad(number)), true
}

func (u *usb) Reserve(_ context.Context, r *device.Reservation) (*device.Edits, error) {
	plugged := map[string]gadget{}
	for _, g := range u.gadgets() {
		plugged[g.id] = g
	}
	edits := &device.Edits{}
	var nodes []string
	for _, id := range r.DeviceIDs {
		g, ok := plugged[id]
		if !ok {
			return nil, abi.NewRecoverableError(abi.NotFound, "device "+id+" is not plugged in")
		}
		node, ok := g.node()
		if !ok {
			return nil, abi.NewRecoverableError(abi.Unavailable, "device "+id+" has no address on its bus yet")
		}
		nodes = append(nodes, node)
		edits.DeviceNodes = append(edits.DeviceNodes, &device.Node{Path: node})
		edits.Mounts = append(edits.Mounts, &device.Mount{HostPath: g.dir, ContainerPath: path.Join("/devices/usb", g.port)})
	}
	edits.Env = []string{"USB_DEVICES=" + strings.Join(nodes, ",")}
	return edits, nil
}

func (u *usb) Stats(context.Context) (*device.Stats, error) {
	answer := &device.Stats{}
	groups := map[string]*device.GroupStats{}
	for _, g := range u.gadgets() {
		id := g.group()
		key := id.Vendor + id.Name
		if groups[key] == nil {
			groups[key] = &device.GroupStats{Id: id, Devices: map[string]*device.InstanceStats{}}
			answer.Groups = append(answer.Groups, groups[key])
		}
		groups[key].Devices[g.id] = g.stats()
	}
	return answer, nil
}

func (g gadget) stats() *device.InstanceStats {
	s := &device.InstanceStats{}
	if n, ok := sysfs.Int(path.Join(g.dir, "urbnum")); ok {
		s.Summary = device.IntValue(n, "")
		s.Summary.Description = "Requests to the device since it was plugged in"
	}
	for _, name := range []string{"active_duration", "connected_duration"} {
		if ms, ok := sysfs.Int(path.Join(g.dir, "power", name)); ok {
			s.Stats = append(s.Stats, device.Stat(device.IntValue(ms, "ms"), "power", name))
		}
	}
	if status := g.read("power/runtime_status"); status != "" {
		s.Stats = append(s.Stats, device.Stat(device.StringValue(status), "power", "status"))
	}
	return s
}
