package main

import (
	"path"

	"github.com/wasmnode/wasmnode/guest-examples/devices/internal/sysfs"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

// measure reads what the kernel shows of a card; what it does not show is left out. The
// summary is the memory in use, or what there is instead.
func measure(dir string) *device.InstanceStats {
	s := &device.InstanceStats{}
	add := func(v *device.Value, description string, where ...string) {
		v.Description = description
		s.Stats = append(s.Stats, device.Stat(v, where...))
		if s.Summary == nil {
			s.Summary = v
		}
	}
	used, haveUsed := sysfs.Int(path.Join(dir, "mem_info_vram_used"))
	total, haveTotal := sysfs.Int(path.Join(dir, "mem_info_vram_total"))
	if haveUsed && haveTotal {
		add(device.IntOf(used>>20, total>>20, "MiB"), "Memory in use", "memory", "used")
	}
	if busy, ok := sysfs.Int(path.Join(dir, "gpu_busy_percent")); ok {
		add(device.IntValue(busy, "%"), "Time in which the processor had work", "utilization", "gpu")
	}
	if busy, ok := sysfs.Int(path.Join(dir, "mem_busy_percent")); ok {
		add(device.IntValue(busy, "%"), "Time in which the memory was read or written", "utilization", "memory")
	}
	if monitors := sysfs.Entries(path.Join(dir, "hwmon")); len(monitors) > 0 { // a card has one
		monitor := path.Join(dir, "hwmon", monitors[0])
		if milli, ok := sysfs.Int(path.Join(monitor, "temp1_input")); ok {
			add(device.FloatValue(float64(milli)/1000, "C"), "Temperature", "temperature", "gpu")
		}
		if micro, ok := sysfs.Int(path.Join(monitor, "power1_average")); ok {
			add(device.FloatValue(float64(micro)/1e6, "W"), "Power drawn", "power", "average")
		}
		if rpm, ok := sysfs.Int(path.Join(monitor, "fan1_input")); ok {
			add(device.IntValue(rpm, "rpm"), "Fan's speed", "fan", "speed")
		}
	}
	return s
}
