package main

// The trees of several machines, as far as the plugin looks.

// server has two NVIDIA cards of one model with their driver, one of which has not been
// opened yet, and the sound function that each card has.
const server = `
	sys/devices/pci0000:3a/0000:3b:00.0/vendor  0x10de
	sys/devices/pci0000:3a/0000:3b:00.0/device  0x20b0
	sys/devices/pci0000:3a/0000:3b:00.0/class   0x030200
	sys/devices/pci0000:3a/0000:3b:00.0/max_link_width  16
	sys/devices/pci0000:3a/0000:3b:00.0/driver  -> ../../../bus/pci/drivers/nvidia
	sys/devices/pci0000:3a/0000:3b:00.1/vendor  0x10de
	sys/devices/pci0000:3a/0000:3b:00.1/class   0x040300
	sys/devices/pci0000:86/0000:87:00.0/vendor  0x10de
	sys/devices/pci0000:86/0000:87:00.0/device  0x20b0
	sys/devices/pci0000:86/0000:87:00.0/class   0x030200
	sys/devices/pci0000:86/0000:87:00.0/max_link_width  8
	sys/devices/pci0000:86/0000:87:00.0/driver  -> ../../../bus/pci/drivers/nvidia
	sys/bus/pci/drivers/nvidia/module  x
	sys/bus/pci/devices/0000:3b:00.0  -> ../../../devices/pci0000:3a/0000:3b:00.0
	sys/bus/pci/devices/0000:3b:00.1  -> ../../../devices/pci0000:3a/0000:3b:00.1
	sys/bus/pci/devices/0000:87:00.0  -> ../../../devices/pci0000:86/0000:87:00.0
	sys/module/nvidia_uvm/refcnt  2
	proc/driver/nvidia/version  NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 11.4.0
	proc/driver/nvidia/gpus/0000:3b:00.0/information  Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 152\nGPU UUID: \t GPU-5d3bdb0a-0000-1111-2222-6bb8b3f3d3ac\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 0
	proc/driver/nvidia/gpus/0000:87:00.0/information  Model: \t\t NVIDIA A100-SXM4-40GB\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 1
`

// workstation has an AMD card with its driver and monitor, beside a display controller
// of another maker.
const workstation = `
	sys/devices/pci0000:00/0000:00:02.0/vendor  0x8086
	sys/devices/pci0000:00/0000:00:02.0/class   0x030000
	sys/devices/pci0000:00/0000:03:00.0/vendor  0x1002
	sys/devices/pci0000:00/0000:03:00.0/device  0x66a1
	sys/devices/pci0000:00/0000:03:00.0/class   0x030000
	sys/devices/pci0000:00/0000:03:00.0/driver  -> ../../../bus/pci/drivers/amdgpu
	sys/devices/pci0000:00/0000:03:00.0/unique_id     4b9a1f0200000000
	sys/devices/pci0000:00/0000:03:00.0/product_name  Instinct MI50/MI60
	sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_total  17163091968
	sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_used   1073741824
	sys/devices/pci0000:00/0000:03:00.0/gpu_busy_percent     0
	sys/devices/pci0000:00/0000:03:00.0/hwmon/hwmon4/temp1_input     43500
	sys/devices/pci0000:00/0000:03:00.0/hwmon/hwmon4/power1_average  21000000
	sys/devices/pci0000:00/0000:03:00.0/drm/card1/status       x
	sys/devices/pci0000:00/0000:03:00.0/drm/renderD129/status  x
	sys/devices/pci0000:00/0000:03:00.0/drm/controlD65/status  x
	sys/devices/virtual/kfd/kfd/dev  240:0
	sys/module/amdgpu/version  6.7.8
	sys/bus/pci/devices/0000:00:02.0  -> ../../../devices/pci0000:00/0000:00:02.0
	sys/bus/pci/devices/0000:03:00.0  -> ../../../devices/pci0000:00/0000:03:00.0
`

// laptop has AMD's processor with graphics of its own, which has no name and no unique ID,
// and a card of AMD's, whose bridge and sound are AMD's too.
const laptop = `
	sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/vendor  0x1002
	sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/class   0x060400
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/vendor  0x1002
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/device  0x73ff
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/class   0x038000
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/driver  -> ../../../../bus/pci/drivers/amdgpu
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/unique_id  9a1c000000000001
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/mem_info_vram_total  8573157376
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/mem_info_vram_used   0
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/card0/card0-eDP-1/status  x
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/renderD128/dev  226:128
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.1/vendor  0x1002
	sys/devices/pci0000:00/0000:00:01.1/0000:03:00.1/class   0x040300
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/vendor  0x1002
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/device  0x1638
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/class   0x030000
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/driver  -> ../../../../bus/pci/drivers/amdgpu
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/mem_info_vram_total  536870912
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/drm/card1/card1-HDMI-A-1/status  x
	sys/devices/pci0000:00/0000:00:08.1/0000:06:00.0/drm/renderD129/dev  226:129
	sys/bus/pci/devices/0000:01:00.0  -> ../../../devices/pci0000:00/0000:00:01.1/0000:01:00.0
	sys/bus/pci/devices/0000:03:00.0  -> ../../../devices/pci0000:00/0000:00:01.1/0000:03:00.0
	sys/bus/pci/devices/0000:03:00.1  -> ../../../devices/pci0000:00/0000:00:01.1/0000:03:00.1
	sys/bus/pci/devices/0000:06:00.0  -> ../../../devices/pci0000:00/0000:00:08.1/0000:06:00.0
`

// passthrough has cards that tasks cannot use: one given to virtual machines, one with
// the free driver, one without any.
const passthrough = `
	sys/devices/pci0000:00/0000:01:00.0/vendor  0x10de
	sys/devices/pci0000:00/0000:01:00.0/device  0x1b06
	sys/devices/pci0000:00/0000:01:00.0/class   0x030000
	sys/devices/pci0000:00/0000:01:00.0/driver  -> ../../../bus/pci/drivers/vfio-pci
	sys/devices/pci0000:00/0000:02:00.0/vendor  0x10de
	sys/devices/pci0000:00/0000:02:00.0/device  0x1b06
	sys/devices/pci0000:00/0000:02:00.0/class   0x030000
	sys/devices/pci0000:00/0000:02:00.0/driver  -> ../../../bus/pci/drivers/nouveau
	sys/devices/pci0000:00/0000:02:00.0/hwmon/hwmon1/temp1_input  39000
	sys/devices/pci0000:00/0000:02:00.0/hwmon/hwmon1/fan1_input   1100
	sys/devices/pci0000:00/0000:04:00.0/vendor  0x1002
	sys/devices/pci0000:00/0000:04:00.0/device  0x7408
	sys/devices/pci0000:00/0000:04:00.0/class   0x120000
	sys/bus/pci/devices/0000:01:00.0  -> ../../../devices/pci0000:00/0000:01:00.0
	sys/bus/pci/devices/0000:02:00.0  -> ../../../devices/pci0000:00/0000:02:00.0
	sys/bus/pci/devices/0000:04:00.0  -> ../../../devices/pci0000:00/0000:04:00.0
`

// empty has no card at all.
const empty = `
	sys/devices/pci0000:00/0000:00:1f.0/vendor  0x8086
	sys/devices/pci0000:00/0000:00:1f.0/class   0x060100
	sys/bus/pci/devices/0000:00:1f.0  -> ../../../devices/pci0000:00/0000:00:1f.0
`
