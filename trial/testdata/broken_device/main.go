// Command broken_device is a device plugin that does all that the contract says, but for what
// its configuration names.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/kv"
)

func init() { device.Serve(&broken{}) }

func main() {}

type broken struct{ how string }

func (b *broken) Describe() *device.Description {
	return &device.Description{
		Name: "broken_device", Version: "0.1.0",
		PluginConfigSchema: `{"type": "object", "properties": {"how": {"type": "string", "default": ""}}, "additionalProperties": false}`,
	}
}

func (b *broken) Configure(_ context.Context, config []byte) error {
	var c struct{ How string }
	if err := json.Unmarshal(config, &c); err != nil {
		return abi.NewError(abi.InvalidArgument, err.Error())
	}
	b.how = c.How
	return nil
}

func (b *broken) Fingerprint(context.Context) (*device.Fingerprint, error) {
	g := &device.Group{Id: &device.GroupID{Vendor: "wasmnode", Type: "broken", Name: "one"}, Devices: []*device.Device{{Id: "a", Healthy: true}}}
	f := &device.Fingerprint{Groups: []*device.Group{g}}
	switch b.how {
	case "groups":
		f.Groups = append(f.Groups, g)
	case "ids":
		g.Devices = append(g.Devices, g.Devices[0])
	case "name":
		g.Id.Vendor = ""
	}
	return f, nil
}

func (b *broken) Reserve(ctx context.Context, r *device.Reservation) (*device.Edits, error) {
	if r.Group.GetName() != "one" && b.how != "unknown" {
		return nil, abi.NewError(abi.NotFound, "there is no such group")
	}
	version, err := kv.Set(ctx, "reserved", []byte(r.User.GetAllocId()))
	if err != nil {
		return nil, err
	}
	edits := &device.Edits{Env: []string{"BROKEN=a"}}
	switch b.how {
	case "again":
		edits.Env = []string{fmt.Sprintf("BROKEN=%d", version)}
	case "hooks":
		edits.Hooks = append(edits.Hooks, &wasmnodev1.EditedHook{})
	case "mount":
		edits.Mounts = []*device.Mount{{HostPath: "here", ContainerPath: "/there"}}
	case "node":
		edits.DeviceNodes = []*device.Node{{Path: "null"}}
	case "variable":
		edits.Env = []string{"LD_PRELOAD=/x"}
	}
	return edits, nil
}

func (b *broken) Release(ctx context.Context, _ *device.Reservation) error {
	value, _, err := kv.Get(ctx, "reserved")
	if err != nil {
		return err
	}
	if len(value) == 0 && b.how == "release" {
		return abi.NewError(abi.FailedPrecondition, "it is free")
	}
	return kv.Delete(ctx, "reserved")
}
