package driver

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// call is what every export does: fetch the input, work, hand over the answer or the
// error. Go drops the buffers; no memory is shared with the host.
func call(operation string, inputLen uint32) uint32 {
	input := hostcall.Input(inputLen)
	if served == nil {
		return fail(abi.NewError(abi.Internal, "the plugin's main package never called driver.Serve in an init function"))
	}
	answer, err := Handle(context.Background(), served, operation, input)
	if err != nil {
		return fail(err)
	}
	hostcall.Output(answer)
	return 0
}

func fail(err error) uint32 {
	message := abi.Proto(err)
	if message.Code == 0 {
		message.Code = abi.Unknown
	}
	// Encoding fails for no value of this type.
	encoded, _ := message.MarshalVT()
	hostcall.Output(encoded)
	return uint32(message.Code)
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
