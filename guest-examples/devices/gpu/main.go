// Command gpu is the device plugin "gpu": NVIDIA's and AMD's graphics processors, found
// and measured from sysfs and procfs alone.
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

func init() { device.Serve(&gpu{}) }

func main() {}

type gpu struct{ sys, proc string }

// card is one processor.
type card struct {
	vendor     vendor
	address    string // on PCI, such as "0000:3b:00.0"
	dir        string // in sysfs
	model      string
	uuid       string // that its vendor's programs know it by; "": unknown
	driver     string // that the kernel bound to it; "": none
	attributes map[string]*device.Attribute
}

// vendor is what differs from maker to maker.
type vendor interface {
	name() string
	// driver is the kernel's, without which tasks cannot use the card.
	driver() string
	// complete fills in what the vendor's driver reports of a card.
	complete(c *card)
	// edits is what a task needs for some cards, all together.
	edits(cards []card) (*device.Edits, error)
}

func (*gpu) Describe() *device.Description {
	return &device.Description{Name: "gpu", Version: "0.1.0", PluginConfigSchema: pluginSchema}
}

func (g *gpu) Configure(_ context.Context, data []byte) error {
	c, err := config.Parse(data)
	g.sys, g.proc = c.Get("sysfs").Text(), c.Get("procfs").Text()
	return err
}

// cards are the machine's, in the order of their addresses.
func (g *gpu) cards() (all []card) {
	vendors := map[string]vendor{
		"0x10de": nvidia{proc: path.Join(g.proc, "driver/nvidia"), modules: path.Join(g.sys, "module")},
		"0x1002": amd{sys: g.sys},
	}
	tree := path.Join(g.sys, "bus/pci/devices")
	for _, address := range sysfs.Entries(tree) {
		dir := path.Join(tree, address)
		v := vendors[sysfs.Read(path.Join(dir, "vendor"))]
		if v == nil || !isProcessor(sysfs.Read(path.Join(dir, "class"))) {
			continue
		}
		c := card{vendor: v, address: address, dir: dir, driver: sysfs.Link(path.Join(dir, "driver")), attributes: map[string]*device.Attribute{}}
		c.model = sysfs.Name(sysfs.Read(path.Join(dir, "device")), "unknown")
		if width, ok := sysfs.Int(path.Join(dir, "max_link_width")); ok {
			c.attributes["pci_link_width"] = device.Int(width, "")
		}
		v.complete(&c)
		all = append(all, c)
	}
	return all
}

// isProcessor distinguishes display controllers and processing accelerators from the sound
// and USB functions of the same cards.
func isProcessor(class string) bool {
	return strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x1200")
}

func (c card) group() *device.GroupID {
	return &device.GroupID{Vendor: c.vendor.name(), Type: "gpu", Name: c.model}
}

// device is the card as a node sees it. Its ID is its address, which it always has: a card
// that got another one when its driver reports more would pass for a free one while a task
// has it.
func (c card) device() *device.Device {
	d := &device.Device{Id: c.address, PciBusId: c.address, Healthy: c.driver == c.vendor.driver()}
	switch {
	case c.driver == "":
		d.HealthDescription = "no driver: load " + c.vendor.driver()
	case !d.Healthy:
		d.HealthDescription = "bound to " + c.driver + ", not to " + c.vendor.driver()
	}
	return d
}

func (g *gpu) Fingerprint(context.Context) (*device.Fingerprint, error) {
	answer := &device.Fingerprint{NextPollMs: 10_000}
	groups := map[string]*device.Group{}
	for _, c := range g.cards() {
		id := c.group()
		key := id.Vendor + "/" + id.Name
		if known := groups[key]; known != nil {
			known.Devices = append(known.Devices, c.device())
			sysfs.Common(known.Attributes, c.attributes)
			continue
		}
		groups[key] = &device.Group{Id: id, Devices: []*device.Device{c.device()}, Attributes: c.attributes}
		answer.Groups = append(answer.Groups, groups[key])
	}
	return answer, nil
}

func (g *gpu) Reserve(_ context.Context, r *device.Reservation) (*device.Edits, error) {
	known := map[string]card{}
	for _, c := range g.cards() {
		known[c.address] = c
	}
	var cards []card
	for _, id := range r.DeviceIDs {
		c, ok := known[id]
		if !ok || c.vendor.name() != r.Group.Vendor {
			return nil, abi.NewRecoverableError(abi.NotFound, "card "+id+" is gone")
		}
		cards = append(cards, c)
	}
	return cards[0].vendor.edits(cards)
}

// variable names cards to the vendor's programs, if all of them report their names.
func variable(name string, cards []card) (env []string) {
	var all []string
	for _, c := range cards {
		if c.uuid == "" {
			return nil
		}
		all = append(all, c.uuid)
	}
	return []string{name + "=" + strings.Join(all, ",")}
}

func (g *gpu) Stats(context.Context) (*device.Stats, error) {
	answer := &device.Stats{}
	groups := map[string]*device.GroupStats{}
	for _, c := range g.cards() {
		id := c.group()
		key := id.Vendor + "/" + id.Name
		if groups[key] == nil {
			groups[key] = &device.GroupStats{Id: id, Devices: map[string]*device.InstanceStats{}}
			answer.Groups = append(answer.Groups, groups[key])
		}
		groups[key].Devices[c.address] = measure(c.dir)
	}
	return answer, nil
}
