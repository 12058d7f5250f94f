package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/guest-examples/devices/internal/tree"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// both runs a test natively and against the compiled plugin, on a machine's tree.
func both(t *testing.T, machine string, test func(t *testing.T, node *drivertest.DeviceNode, dir string)) {
	run := func(t *testing.T, newNode func(dir string) *drivertest.DeviceNode) {
		dir := tree.Make(t, machine)
		node := newNode(dir)
		require.NoError(t, node.Configure(`{"sysfs": "`+dir+`/sys", "procfs": "`+dir+`/proc"}`))
		test(t, node, dir)
	}
	t.Run("native", func(t *testing.T) {
		run(t, func(string) *drivertest.DeviceNode {
			return drivertest.NewDevice(t, func() device.Plugin { return &gpu{} })
		})
	})
	t.Run("compiled", func(t *testing.T) {
		run(t, func(dir string) *drivertest.DeviceNode {
			return drivertest.NewCompiledDevice(t, guestbuild.Plugin(t, "guest-examples/devices/gpu"), dir)
		})
	})
}

var (
	a100 = &device.GroupID{Vendor: "nvidia", Type: "gpu", Name: "NVIDIA A100-SXM4-40GB"}
	mi50 = &device.GroupID{Vendor: "amd", Type: "gpu", Name: "Instinct MI50-MI60"}
)

const (
	firstA100  = "0000:3b:00.0"
	secondA100 = "0000:87:00.0" // which does not tell its UUID yet
	theMI50    = "0000:03:00.0"
)

func TestAServersCardsAreOneGroup(t *testing.T) {
	both(t, server, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 1)
		g := f.Groups[0]
		require.True(t, g.Id.EqualVT(a100))
		require.Len(t, g.Devices, 2, "a card's sound is none")
		require.True(t, g.Devices[0].EqualVT(&device.Device{Id: firstA100, Healthy: true, PciBusId: "0000:3b:00.0"}))
		require.True(t, g.Devices[1].EqualVT(&device.Device{Id: secondA100, Healthy: true, PciBusId: "0000:87:00.0"}))
		require.True(t, g.Attributes["driver_version"].EqualVT(device.String("535.104.05")))
		require.NotContains(t, g.Attributes, "pci_link_width", "in which they differ")

		edits, err := node.Reserve(a100, "train", firstA100)
		require.NoError(t, err)
		require.Equal(t, []string{"NVIDIA_VISIBLE_DEVICES=GPU-5d3bdb0a-0000-1111-2222-6bb8b3f3d3ac"}, edits.Env)
		require.Equal(t, []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}, nodesOf(edits))
		edits, err = node.Reserve(a100, "train", firstA100, secondA100)
		require.NoError(t, err)
		require.Empty(t, edits.Env, "not all tell their UUID")
		require.Equal(t, []string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}, nodesOf(edits))

		s, err := node.Stats()
		require.NoError(t, err)
		require.Nil(t, s.Groups[0].Devices[firstA100].Summary, "the kernel shows nothing of it")
	})
}

func TestAWorkstationsCardReportsMemoryAndTemperature(t *testing.T) {
	both(t, workstation, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 1, "another maker's is none of this plugin's")
		g := f.Groups[0]
		require.True(t, g.Id.EqualVT(mi50))
		require.True(t, g.Devices[0].EqualVT(&device.Device{Id: theMI50, Healthy: true, PciBusId: "0000:03:00.0"}))
		require.True(t, g.Attributes["memory"].EqualVT(device.Int(16368, "MiB")))
		require.True(t, g.Attributes["driver_version"].EqualVT(device.String("6.7.8")))

		edits, err := node.Reserve(mi50, "train", theMI50)
		require.NoError(t, err)
		require.Equal(t, []string{"ROCR_VISIBLE_DEVICES=GPU-4b9a1f0200000000"}, edits.Env)
		require.Equal(t, []string{"/dev/dri/card1", "/dev/dri/renderD129", "/dev/kfd"}, nodesOf(edits))

		s, err := node.Stats()
		require.NoError(t, err)
		stats := s.Groups[0].Devices[theMI50]
		require.Equal(t, int64(1024), stats.Summary.GetIntValue())
		require.Equal(t, int64(16368), stats.Summary.GetIntDenominator())
		figures := map[string]*device.Value{}
		for _, f := range stats.Stats {
			figures[f.Path[0]+"."+f.Path[1]] = f.Value
		}
		require.Len(t, figures, 4)
		require.NotNil(t, figures["utilization.gpu"].Value)
		require.Zero(t, figures["utilization.gpu"].GetIntValue(), "idle is a figure")
		require.InDelta(t, 43.5, figures["temperature.gpu"].GetFloatValue(), 1e-9)
		require.InDelta(t, 21.0, figures["power.average"].GetFloatValue(), 1e-9)
	})
}

func TestALaptopsProcessorAndCardAreApart(t *testing.T) {
	both(t, laptop, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 2, "bridges and sound are none")
		card, processor := f.Groups[0], f.Groups[1]
		require.True(t, card.Id.EqualVT(&device.GroupID{Vendor: "amd", Type: "gpu", Name: "0x73ff"}), "without a product's name")
		require.True(t, card.Attributes["memory"].EqualVT(device.Int(8176, "MiB")))
		require.True(t, processor.Id.EqualVT(&device.GroupID{Vendor: "amd", Type: "gpu", Name: "0x1638"}))
		require.True(t, processor.Attributes["memory"].EqualVT(device.Int(512, "MiB")))
		require.True(t, processor.Devices[0].EqualVT(&device.Device{Id: "0000:06:00.0", Healthy: true, PciBusId: "0000:06:00.0"}))

		edits, err := node.Reserve(card.Id, "train", "0000:03:00.0")
		require.NoError(t, err)
		require.Equal(t, []string{"ROCR_VISIBLE_DEVICES=GPU-9a1c000000000001"}, edits.Env)
		require.Equal(t, []string{"/dev/dri/card0", "/dev/dri/renderD128"}, nodesOf(edits), "the kernel has no kfd here")
		edits, err = node.Reserve(processor.Id, "train", "0000:06:00.0")
		require.NoError(t, err)
		require.Empty(t, edits.Env)
		require.Equal(t, []string{"/dev/dri/card1", "/dev/dri/renderD129"}, nodesOf(edits))
		require.Empty(t, edits.Hooks)

		s, err := node.Stats()
		require.NoError(t, err)
		require.NotNil(t, s.Groups[0].Devices["0000:03:00.0"].Summary.Value, "no memory in use is a figure")
		require.Nil(t, s.Groups[1].Devices["0000:06:00.0"].Summary)
	})
}

// A card tells its UUID once it was opened, which its first task may do.
func TestACardKeepsItsIDWhenItsDriverReportsMore(t *testing.T) {
	both(t, server, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		before, err := node.Fingerprint()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/driver/nvidia/gpus/0000:87:00.0/information"),
			[]byte("Model: NVIDIA A100-SXM4-40GB\nGPU UUID: GPU-77\nDevice Minor: 1\n"), 0o600))
		after, err := node.Fingerprint()
		require.NoError(t, err)
		require.True(t, after.EqualVT(before))
		edits, err := node.Reserve(a100, "train", secondA100)
		require.NoError(t, err)
		require.Equal(t, []string{"NVIDIA_VISIBLE_DEVICES=GPU-77"}, edits.Env)
	})
}

func nodesOf(e *device.Edits) (paths []string) {
	for _, n := range e.DeviceNodes {
		paths = append(paths, n.Path)
	}
	return paths
}

func TestACardWithoutItsDriverIsUnhealthyWithTheReason(t *testing.T) {
	both(t, passthrough, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		why := map[string]string{}
		for _, g := range f.Groups {
			for _, d := range g.Devices {
				require.False(t, d.Healthy)
				why[d.Id] = g.Id.Vendor + " " + g.Id.Name + ": " + d.HealthDescription
			}
		}
		require.Equal(t, map[string]string{
			"0000:01:00.0": "nvidia 0x1b06: bound to vfio-pci, not to nvidia",
			"0000:02:00.0": "nvidia 0x1b06: bound to nouveau, not to nvidia",
			"0000:04:00.0": "amd 0x7408: no driver: load amdgpu",
		}, why)
		nvidia := &device.GroupID{Vendor: "nvidia", Type: "gpu", Name: "0x1b06"}
		_, err = node.Reserve(nvidia, "train", "0000:01:00.0")
		require.True(t, abi.IsRecoverable(err))
		s, err := node.Stats()
		require.NoError(t, err)
		require.InDelta(t, 39.0, s.Groups[0].Devices["0000:02:00.0"].Summary.GetFloatValue(), 1e-9)
	})
}

func TestAMachineWithoutCardsHasNone(t *testing.T) {
	for name, machine := range map[string]string{"other hardware": empty, "no PCI": "sys/kernel/x 1"} {
		t.Run(name, func(t *testing.T) {
			both(t, machine, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
				f, err := node.Fingerprint()
				require.NoError(t, err)
				require.Empty(t, f.Groups)
				_, err = node.Reserve(a100, "train", firstA100)
				require.Equal(t, abi.NotFound, abi.CodeOf(err))
			})
		})
	}
}

func TestACardThatIsTakenOutIsGone(t *testing.T) {
	both(t, server, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, "sys/bus/pci/devices/0000:87:00.0")))
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups[0].Devices, 1)
		require.True(t, f.Groups[0].Attributes["pci_link_width"].EqualVT(device.Int(16, "")))
	})
}
