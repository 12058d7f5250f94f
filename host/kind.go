package host

import (
	"context"
	"slices"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Kind is what a plugin is for.
type Kind string

// The kinds.
const (
	KindDriver Kind = "driver"
	KindDevice Kind = "device"
)

var (
	driverOps = []string{
		abi.OpDriverDescribe, abi.OpDriverConfigure, abi.OpDriverFingerprint, abi.OpDriverStartTask,
		abi.OpDriverRecoverTask, abi.OpDriverWaitTask, abi.OpDriverStopTask, abi.OpDriverSignalTask,
		abi.OpDriverDestroyTask, abi.OpDriverInspectTask, abi.OpDriverTaskStats, abi.OpDriverExecTask,
		abi.OpDriverCreateNetwork, abi.OpDriverDestroyNetwork,
	}
	deviceOps = []string{
		abi.OpDeviceDescribe, abi.OpDeviceConfigure, abi.OpDeviceFingerprint, abi.OpDeviceReserve,
		abi.OpDeviceRelease, abi.OpDeviceStats,
	}
)

// kindOf is what a plugin with those operations is for; "": none of ours. A module is
// one or the other: what it has of the second is not called.
func kindOf(operations []string) Kind {
	switch {
	case slices.Contains(operations, abi.OpDriverDescribe):
		return KindDriver
	case slices.Contains(operations, abi.OpDeviceDescribe):
		return KindDevice
	}
	return ""
}

// required are the operations without which a plugin of that kind is refused.
func (k Kind) required() []string {
	if k == KindDevice {
		return abi.RequiredDeviceOps
	}
	return abi.RequiredDriverOps
}

// configuration is the call that hands a plugin its own configuration.
func (k Kind) configuration(config []byte) (op string, request Message) {
	if k == KindDevice {
		return abi.OpDeviceConfigure, &wasmnodev1.DeviceConfigureRequest{Config: config}
	}
	return abi.OpDriverConfigure, &wasmnodev1.DriverConfigureRequest{Config: config}
}

// askDescription asks a plugin who it is.
func (p *Plugin) askDescription(ctx context.Context) (*wasmnodev1.DriverDescribeResponse, error) {
	version := p.host.cfg.Version
	if p.spec.Kind != KindDevice {
		answer := &wasmnodev1.DriverDescribeResponse{}
		return answer, p.Invoke(ctx, Call{Op: abi.OpDriverDescribe, Request: &wasmnodev1.DriverDescribeRequest{HostVersion: version}, Answer: answer})
	}
	answer := &wasmnodev1.DeviceDescribeResponse{}
	err := p.Invoke(ctx, Call{Op: abi.OpDeviceDescribe, Request: &wasmnodev1.DeviceDescribeRequest{HostVersion: version}, Answer: answer})
	return &wasmnodev1.DriverDescribeResponse{
		Name: answer.Name, Version: answer.Version, PluginConfigSchema: answer.PluginConfigSchema, OptionalCapabilities: answer.OptionalCapabilities,
	}, err
}
