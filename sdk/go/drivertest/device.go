package drivertest

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

// DeviceNode is an emulated node with one device plugin. Its methods may be called
// concurrently; each call of the plugin has an instance of its own.
type DeviceNode struct{ *core }

// NewDevice returns a node with a device plugin that runs natively. newPlugin is
// called for every call of the plugin and must return a new one.
func NewDevice(t T, newPlugin func() device.Plugin) *DeviceNode {
	t.Helper()
	return newDeviceNode(t, native(func() handler {
		p := newPlugin()
		return func(ctx context.Context, operation string, request []byte) ([]byte, error) {
			return device.Handle(ctx, p, operation, request)
		}
	}))
}

// NewCompiledDevice returns a node with a device plugin that was compiled to
// WebAssembly, in any language. It sees the directories, read-only, where the machine
// has them.
func NewCompiledDevice(t T, wasm []byte, dirs ...string) *DeviceNode {
	t.Helper()
	return newDeviceNode(t, compile(t, wasm, abi.RequiredDeviceOps, &compiled{dirs: dirs}))
}

func newDeviceNode(t T, p plugin) *DeviceNode {
	return &DeviceNode{&core{t: t, plugin: p, records: new(records), ops: coreOps{
		describe: abi.OpDeviceDescribe, configure: abi.OpDeviceConfigure, fingerprint: abi.OpDeviceFingerprint,
		schema: func(description []byte) (string, error) {
			var d device.Description
			err := d.UnmarshalVT(description)
			return d.PluginConfigSchema, err
		},
	}}}
}

// Upgrade has another build of the plugin, compiled to WebAssembly, take over, with the
// directories of the node, as a node does when the file changes: it is described, gets the
// configuration of [DeviceNode.Configure], and is asked for its fingerprint. If that fails, the
// old one stays.
func (n *DeviceNode) Upgrade(wasm []byte) error {
	n.t.Helper()
	next, err := n.build(wasm, abi.RequiredDeviceOps)
	if err != nil {
		return err
	}
	return n.replace(next)
}

// Describe returns the plugin's description of itself. The test fails when it cannot.
func (n *DeviceNode) Describe() *device.Description {
	n.t.Helper()
	d := new(device.Description)
	if err := d.UnmarshalVT(n.describeRaw(context.Background())); err != nil {
		n.t.Fatalf("drivertest: describe: %v", err)
	}
	return d
}

// Fingerprint asks which devices there are.
func (n *DeviceNode) Fingerprint() (*device.Fingerprint, error) {
	answer, err := n.Call(abi.OpDeviceFingerprint, nil)
	if err != nil {
		return nil, err
	}
	f := new(device.Fingerprint)
	return f, f.UnmarshalVT(answer)
}

// Stats asks for the figures of all devices.
func (n *DeviceNode) Stats() (*device.Stats, error) {
	answer, err := n.Call(abi.OpDeviceStats, nil)
	if err != nil {
		return nil, err
	}
	s := new(device.Stats)
	return s, s.UnmarshalVT(answer)
}

// Reserve reserves devices for a task of the given name.
func (n *DeviceNode) Reserve(group *device.GroupID, task string, ids ...string) (*device.Edits, error) {
	request, err := (&wasmnodev1.DeviceReserveRequest{Group: group, DeviceIds: ids, User: user(task)}).MarshalVT()
	if err != nil {
		return nil, err
	}
	answer, err := n.Call(abi.OpDeviceReserve, request)
	if err != nil {
		return nil, err
	}
	var r wasmnodev1.DeviceReserveResponse
	err = r.UnmarshalVT(answer)
	return r.ContainerEdits, err
}

// Release ends what Reserve began.
func (n *DeviceNode) Release(group *device.GroupID, task string, ids ...string) error {
	request, err := (&wasmnodev1.DeviceReleaseRequest{Group: group, DeviceIds: ids, User: user(task)}).MarshalVT()
	if err != nil {
		return err
	}
	_, err = n.Call(abi.OpDeviceRelease, request)
	return err
}

func user(task string) *device.User {
	return &device.User{
		AllocId: "00000000-0000-0000-0000-000000000001", TaskName: task,
		JobId: "job", TaskGroupName: "group", Namespace: "default",
	}
}
