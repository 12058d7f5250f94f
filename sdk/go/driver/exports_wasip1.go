package driver

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

func call(operation string, inputLen uint32) uint32 {
	return hostcall.Export(inputLen, func(input []byte) ([]byte, error) {
		if served == nil {
			return nil, abi.NewError(abi.Internal, "the plugin's main package never called driver.Serve in an init function")
		}
		return Handle(context.Background(), served, operation, input)
	})
}

//go:wasmexport driver_describe
func exportDescribe(inputLen uint32) uint32 { return call(abi.OpDriverDescribe, inputLen) }

//go:wasmexport driver_configure
func exportConfigure(inputLen uint32) uint32 { return call(abi.OpDriverConfigure, inputLen) }

//go:wasmexport driver_fingerprint
func exportFingerprint(inputLen uint32) uint32 { return call(abi.OpDriverFingerprint, inputLen) }

//go:wasmexport driver_start_task
func exportStartTask(inputLen uint32) uint32 { return call(abi.OpDriverStartTask, inputLen) }

//go:wasmexport driver_recover_task
func exportRecoverTask(inputLen uint32) uint32 { return call(abi.OpDriverRecoverTask, inputLen) }

//go:wasmexport driver_wait_task
func exportWaitTask(inputLen uint32) uint32 { return call(abi.OpDriverWaitTask, inputLen) }

//go:wasmexport driver_stop_task
func exportStopTask(inputLen uint32) uint32 { return call(abi.OpDriverStopTask, inputLen) }

//go:wasmexport driver_signal_task
func exportSignalTask(inputLen uint32) uint32 { return call(abi.OpDriverSignalTask, inputLen) }

//go:wasmexport driver_destroy_task
func exportDestroyTask(inputLen uint32) uint32 { return call(abi.OpDriverDestroyTask, inputLen) }

//go:wasmexport driver_inspect_task
func exportInspectTask(inputLen uint32) uint32 { return call(abi.OpDriverInspectTask, inputLen) }

//go:wasmexport driver_task_stats
func exportTaskStats(inputLen uint32) uint32 { return call(abi.OpDriverTaskStats, inputLen) }

//go:wasmexport driver_exec_task
func exportExecTask(inputLen uint32) uint32 { return call(abi.OpDriverExecTask, inputLen) }

//go:wasmexport driver_create_network
func exportCreateNetwork(inputLen uint32) uint32 { return call(abi.OpDriverCreateNetwork, inputLen) }

//go:wasmexport driver_destroy_network
func exportDestroyNetwork(inputLen uint32) uint32 { return call(abi.OpDriverDestroyNetwork, inputLen) }
