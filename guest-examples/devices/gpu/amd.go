package main

import (
	"os"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/guest-examples/devices/internal/sysfs"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

// amd describes its cards in their own directories.
type amd struct{ sys string }

func (amd) name() string   { return "amd" }
func (amd) driver() string { return "amdgpu" }

func (a amd) complete(c *card) {
	if v := sysfs.Read(path.Join(a.sys, "module/amdgpu/version")); v != "" {
		c.attributes["driver_version"] = device.String(v)
	}
	if total, ok := sysfs.Int(path.Join(c.dir, "mem_info_vram_total")); ok {
		c.attributes["memory"] = device.Int(total>>20, "MiB")
	}
	c.model = sysfs.Name(sysfs.Read(path.Join(c.dir, "product_name")), c.model)
	if unique := sysfs.Read(path.Join(c.dir, "unique_id")); unique != "" {
		c.uuid = "GPU-" + unique
	}
}

func (a amd) edits(cards []card) (*device.Edits, error) {
	edits := &device.Edits{}
	for _, c := range cards {
		var nodes []*device.Node
		for _, name := range sysfs.Entries(path.Join(c.dir, "drm")) {
			if strings.HasPrefix(name, "card") || strings.HasPrefix(name, "renderD") {
				nodes = append(nodes, &device.Node{Path: "/dev/dri/" + name})
			}
		}
		if len(nodes) == 0 {
			return nil, abi.NewRecoverableError(abi.Unavailable, "card "+c.address+" has no nodes: is its driver loaded?")
		}
		edits.DeviceNodes = append(edits.DeviceNodes, nodes...)
	}
	if _, err := os.Stat(path.Join(a.sys, "devices/virtual/kfd/kfd")); err == nil {
		edits.DeviceNodes = append(edits.DeviceNodes, &device.Node{Path: "/dev/kfd"})
	}
	edits.Env = variable("ROCR_VISIBLE_DEVICES", cards)
	return edits, nil
}
