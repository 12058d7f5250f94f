package device

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

func call(operation string, inputLen uint32) uint32 {
	return hostcall.Export(inputLen, func(input []byte) ([]byte, error) {
		if served == nil {
			return nil, abi.NewError(abi.Internal, "the plugin's main package never called device.Serve in an init function")
		}
		return Handle(context.Background(), served, operation, input)
	})
}

//go:wasmexport device_describe
func exportDescribe(inputLen uint32) uint32 { return call(abi.OpDeviceDescribe, inputLen) }

//go:wasmexport device_configure
func exportConfigure(inputLen uint32) uint32 { return call(abi.OpDeviceConfigure, inputLen) }

//go:wasmexport device_fingerprint
func exportFingerprint(inputLen uint32) uint32 { return call(abi.OpDeviceFingerprint, inputLen) }

//go:wasmexport device_reserve
func exportReserve(inputLen uint32) uint32 { return call(abi.OpDeviceReserve, inputLen) }

//go:wasmexport device_release
func exportRelease(inputLen uint32) uint32 { return call(abi.OpDeviceRelease, inputLen) }

//go:wasmexport device_stats
func exportStats(inputLen uint32) uint32 { return call(abi.OpDeviceStats, inputLen) }
