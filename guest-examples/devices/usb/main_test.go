package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/guest-examples/devices/internal/tree"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// laptop is what such a machine's kernel lists: hubs, a camera without a serial number,
// and a stick behind a hub.
const laptop = `
	sys/devices/pci0/usb1/idVendor       1d6b
	sys/devices/pci0/usb1/idProduct      0002
	sys/devices/pci0/usb1/bDeviceClass   09
	sys/devices/pci0/usb1/1-4/idVendor      04f2
	sys/devices/pci0/usb1/1-4/idProduct     b604
	sys/devices/pci0/usb1/1-4/bDeviceClass  ef
	sys/devices/pci0/usb1/1-4/product       Integrated Camera
	sys/devices/pci0/usb1/1-4/manufacturer  Chicony
	sys/devices/pci0/usb1/1-4/speed         480
	sys/devices/pci0/usb1/1-4/busnum        1
	sys/devices/pci0/usb1/1-4/devnum        3
	sys/devices/pci0/usb1/1-4/authorized    0
	sys/devices/pci0/usb1/1-4/1-4:1.0/bInterfaceClass  0e
	sys/devices/pci0/usb1/1-1/idVendor      05e3
	sys/devices/pci0/usb1/1-1/idProduct     0608
	sys/devices/pci0/usb1/1-1/bDeviceClass  09
	sys/devices/pci0/usb1/1-1/1-1.2/idVendor      0781
	sys/devices/pci0/usb1/1-1/1-1.2/idProduct     5567
	sys/devices/pci0/usb1/1-1/1-1.2/bDeviceClass  00
	sys/devices/pci0/usb1/1-1/1-1.2/serial        4C530001
	sys/devices/pci0/usb1/1-1/1-1.2/product       Cruzer Blade
	sys/devices/pci0/usb1/1-1/1-1.2/busnum        1
	sys/devices/pci0/usb1/1-1/1-1.2/devnum        12
	sys/devices/pci0/usb1/1-1/1-1.2/urbnum        0
	sys/devices/pci0/usb1/1-1/1-1.2/authorized    1
	sys/devices/pci0/usb1/1-1/1-1.2/power/connected_duration  123456
	sys/devices/pci0/usb1/1-1/1-1.2/power/runtime_status      active
	sys/bus/usb/devices/usb1     -> ../../../devices/pci0/usb1
	sys/bus/usb/devices/1-1      -> ../../../devices/pci0/usb1/1-1
	sys/bus/usb/devices/1-1.2    -> ../../../devices/pci0/usb1/1-1/1-1.2
	sys/bus/usb/devices/1-4      -> ../../../devices/pci0/usb1/1-4
	sys/bus/usb/devices/1-4:1.0  -> ../../../devices/pci0/usb1/1-4/1-4:1.0
`

// both runs a test natively and against the compiled plugin, on a tree.
func both(t *testing.T, text string, test func(t *testing.T, node *drivertest.DeviceNode, dir string)) {
	run := func(t *testing.T, newNode func(dir string) *drivertest.DeviceNode) {
		dir := tree.Make(t, text)
		node := newNode(dir)
		require.NoError(t, node.Configure(`{"sysfs": "`+dir+`/sys"}`))
		test(t, node, dir)
	}
	t.Run("native", func(t *testing.T) {
		run(t, func(string) *drivertest.DeviceNode {
			return drivertest.NewDevice(t, func() device.Plugin { return &usb{} })
		})
	})
	t.Run("compiled", func(t *testing.T) {
		run(t, func(dir string) *drivertest.DeviceNode {
			return drivertest.NewCompiledDevice(t, guestbuild.Plugin(t, "guest-examples/devices/usb"), dir)
		})
	})
}

var stick = &device.GroupID{Vendor: "0781", Type: "usb", Name: "5567"}

func TestWhatIsPluggedInIsADevice(t *testing.T) {
	both(t, laptop, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 2, "hubs and interfaces are none")
		require.True(t, f.Groups[0].Id.EqualVT(stick))
		require.True(t, f.Groups[0].Devices[0].EqualVT(&device.Device{Id: "4C530001@1-1.2", Healthy: true}))
		require.True(t, f.Groups[0].Attributes["product"].EqualVT(device.String("Cruzer Blade")))
		require.Equal(t, "04f2/usb/b604", f.Groups[1].Id.Vendor+"/"+f.Groups[1].Id.Type+"/"+f.Groups[1].Id.Name)
		require.Equal(t, "1-4", f.Groups[1].Devices[0].Id, "without a serial number, where it is plugged in")
		require.False(t, f.Groups[1].Devices[0].Healthy)
		require.Contains(t, f.Groups[1].Devices[0].HealthDescription, "authorize")
		require.True(t, f.Groups[1].Attributes["speed"].EqualVT(device.Int(60_000_000, "B/s")))

		require.NoError(t, os.Remove(filepath.Join(dir, "sys/bus/usb/devices/1-1.2")))
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 1, "unplugged")
		_, err = node.Reserve(stick, "web", "4C530001@1-1.2")
		require.Equal(t, abi.NotFound, abi.CodeOf(err))
	})
}

func TestATaskGetsTheNodeTheDirectoryAndTheirPaths(t *testing.T) {
	both(t, laptop, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		edits, err := node.Reserve(stick, "web", "4C530001@1-1.2")
		require.NoError(t, err)
		require.Equal(t, []string{"USB_DEVICES=/dev/bus/usb/001/012"}, edits.Env)
		require.True(t, edits.DeviceNodes[0].EqualVT(&device.Node{Path: "/dev/bus/usb/001/012"}))
		require.True(t, edits.Mounts[0].EqualVT(&device.Mount{
			HostPath: filepath.Join(dir, "sys/bus/usb/devices/1-1.2"), ContainerPath: "/devices/usb/1-1.2",
		}))
		require.NoError(t, os.Remove(filepath.Join(dir, "sys/devices/pci0/usb1/1-1/1-1.2/devnum")))
		_, err = node.Reserve(stick, "web", "4C530001@1-1.2")
		require.True(t, abi.IsRecoverable(err), "it is just being plugged in")
	})
}

func TestFiguresThatTheKernelHasNotAreLeftOut(t *testing.T) {
	both(t, laptop, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		s, err := node.Stats()
		require.NoError(t, err)
		stick := s.Groups[0].Devices["4C530001@1-1.2"]
		require.NotNil(t, stick.Summary.Value)
		require.Zero(t, stick.Summary.GetIntValue(), "none is a figure")
		require.Len(t, stick.Stats, 2)
		require.Equal(t, int64(123456), stick.Stats[0].Value.GetIntValue())
		require.Equal(t, "ms", stick.Stats[0].Value.Unit)
		require.Nil(t, s.Groups[1].Devices["1-4"].Summary)
	})
}

// What a stick says of itself is whatever its maker, or a thief, wrote into it.
func TestADeviceCannotCorruptTheAttributesOfTheOthers(t *testing.T) {
	hostile := laptop + `
	sys/devices/pci0/usb1/1-5/idVendor   0781
	sys/devices/pci0/usb1/1-5/idProduct  5567
	sys/devices/pci0/usb1/1-5/serial     4C530001
	sys/devices/pci0/usb1/1-5/product    \n\t` + strings.Repeat("Ä\x1b\xff", 500) + `
	sys/bus/usb/devices/1-5  -> ../../../devices/pci0/usb1/1-5
	sys/devices/pci0/usb1/1-6/idVendor   0781
	sys/devices/pci0/usb1/1-6/idProduct  5568
	sys/devices/pci0/usb1/1-6/serial     /\n/` + strings.Repeat("9", 500) + `
	sys/bus/usb/devices/1-6  -> ../../../devices/pci0/usb1/1-6
	sys/bus/usb/devices/1-7  -> ../../../devices/pci0/usb1/1-7
`
	both(t, hostile, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 3)
		require.Len(t, f.Groups[0].Devices, 2)
		require.Equal(t, "4C530001@1-1.2", f.Groups[0].Devices[0].Id, "who was there first keeps its name")
		require.Equal(t, "4C530001@1-5", f.Groups[0].Devices[1].Id)
		require.NotContains(t, f.Groups[0].Attributes, "product", "what not all of a group say is left out")
		for _, g := range f.Groups {
			for _, d := range g.Devices {
				require.NotContains(t, d.Id, "\n")
				require.LessOrEqual(t, len(d.Id), 128)
			}
			for _, a := range g.Attributes {
				require.LessOrEqual(t, len(a.GetStringValue()), 128)
				require.NotContains(t, a.GetStringValue(), "\x1b")
			}
		}
	})
}

func TestAMachineWithoutUSBHasNone(t *testing.T) {
	both(t, "sys/devices/pci0/class 0", func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Empty(t, f.Groups)
		s, err := node.Stats()
		require.NoError(t, err)
		require.Empty(t, s.Groups)
	})
}
