package main

import (
	"os"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/guest-examples/devices/internal/sysfs"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

// nvidia describes itself in procfs, at proc.
type nvidia struct{ proc, modules string }

func (nvidia) name() string   { return "nvidia" }
func (nvidia) driver() string { return "nvidia" }

func (n nvidia) complete(c *card) {
	if v := moduleVersion(sysfs.Line(path.Join(n.proc, "version"), "NVRM version")); v != "" {
		c.attributes["driver_version"] = device.String(v)
	}
	info := path.Join(n.proc, "gpus", c.address, "information")
	c.model = sysfs.Name(sysfs.Line(info, "Model"), c.model)
	// A card that has not been opened since the machine began does not report it.
	if uuid := sysfs.Line(info, "GPU UUID"); uuid != "" && !strings.Contains(uuid, "?") {
		c.uuid = uuid
	}
}

// moduleVersion finds the version in a line such as "NVIDIA UNIX x86_64 Kernel Module
// 535.104.05  Sat Aug 19 01:15:15 UTC 2023".
func moduleVersion(line string) string {
	for _, word := range strings.Fields(line) {
		if strings.Contains(word, ".") && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}

func (n nvidia) edits(cards []card) (*device.Edits, error) {
	edits := &device.Edits{}
	for _, c := range cards {
		minor := sysfs.Line(path.Join(n.proc, "gpus", c.address, "information"), "Device Minor")
		if minor == "" || strings.Trim(minor, "0123456789") != "" {
			return nil, abi.NewRecoverableError(abi.Unavailable, "card "+c.address+" has no minor number: is its driver loaded?")
		}
		edits.DeviceNodes = append(edits.DeviceNodes, &device.Node{Path: "/dev/nvidia" + minor})
	}
	edits.DeviceNodes = append(edits.DeviceNodes, &device.Node{Path: "/dev/nvidiactl"})
	if _, err := os.Stat(path.Join(n.modules, "nvidia_uvm")); err == nil {
		edits.DeviceNodes = append(edits.DeviceNodes, &device.Node{Path: "/dev/nvidia-uvm"}, &device.Node{Path: "/dev/nvidia-uvm-tools"})
	}
	edits.Env = variable("NVIDIA_VISIBLE_DEVICES", cards)
	return edits, nil
}
