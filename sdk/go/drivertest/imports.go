package drivertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// maxMoved is how many bytes one read or write of a stream moves, see abi/ABI.md.
const maxMoved = 32 << 10

// exportCapabilities gives a runtime the host modules of abi/ABI.md. Their functions
// find the call that they belong to in its context. A panic is how a host function
// traps its guest.
func exportCapabilities(ctx context.Context, r wazero.Runtime) error {
	modules := map[string]map[string]any{
		abi.ModuleABI: {abi.FuncInput: abiInput, abi.FuncOutput: abiOutput, abi.FuncResult: abiResult},
		abi.ModuleLog: {abi.FuncLogWrite: logWrite},
		abi.ModuleTask: {abi.FuncTaskEvent: taskEvent, abi.FuncTaskRefresh: taskRefresh, abi.FuncTaskOutput: taskOutput,
			abi.FuncTaskMark: taskMark, abi.FuncTaskMarked: taskMarked},
		abi.ModuleWasm:    {abi.FuncWasmStart: wasmStart},
		abi.ModuleProcess: {abi.FuncProcessStart: processStart, abi.FuncProcessSupport: processSupport, abi.FuncProcessRun: processRun},
		abi.ModuleStream: {
			abi.FuncStreamRead: streamRead, abi.FuncStreamWrite: streamWrite, abi.FuncStreamShutdown: streamShutdown,
			abi.FuncStreamClose: streamClose, abi.FuncStreamBlocking: streamBlocking, abi.FuncStreamPoll: streamPoll,
		},
		abi.ModuleKV:   {abi.FuncKVGet: kvGet, abi.FuncKVSet: kvSet, abi.FuncKVDelete: kvDelete, abi.FuncKVList: kvList},
		abi.ModuleExec: {abi.FuncExecOpen: execOpen},
		abi.ModuleWorkload: {
			abi.FuncWorkloadSignal: ofWorkload(abi.FuncWorkloadSignal), abi.FuncWorkloadStop: ofWorkload(abi.FuncWorkloadStop),
			abi.FuncWorkloadWait: ofWorkload(abi.FuncWorkloadWait), abi.FuncWorkloadStats: ofWorkload(abi.FuncWorkloadStats),
			abi.FuncWorkloadInspect: ofWorkload(abi.FuncWorkloadInspect), abi.FuncWorkloadExec: ofWorkload(abi.FuncWorkloadExec),
		},
		abi.ModuleNet:  {abi.FuncNetDial: netDial},
		abi.ModuleHTTP: {abi.FuncHTTPRequest: httpRequest, abi.FuncHTTPResponse: httpResponse, abi.FuncHTTPTrailers: httpTrailers},
	}
	for module, functions := range modules {
		builder := r.NewHostModuleBuilder(module)
		for name, f := range functions {
			builder = builder.NewFunctionBuilder().WithFunc(f).Export(name)
		}
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("%s: %w", module, err)
		}
	}
	return nil
}

func callOf(ctx context.Context) *compiledInstance { return ctx.Value(callKey{}).(*compiledInstance) }

// read copies bytes out of the guest.
func read(m api.Module, ptr, length uint32) []byte {
	if length == 0 {
		return nil
	}
	view, ok := m.Memory().Read(ptr, length)
	if !ok {
		panic(fmt.Errorf("bad pointer: %d bytes at %d", length, ptr))
	}
	return append([]byte(nil), view...)
}

func write(m api.Module, ptr uint32, data []byte) {
	if len(data) > 0 && !m.Memory().Write(ptr, data) {
		panic(fmt.Errorf("bad pointer: %d bytes at %d", len(data), ptr))
	}
}

func abiInput(ctx context.Context, m api.Module, ptr uint32) { write(m, ptr, callOf(ctx).input) }

func abiOutput(ctx context.Context, m api.Module, ptr, length uint32) {
	i := callOf(ctx)
	if i.answered {
		panic(fmt.Errorf("output: a second answer"))
	}
	if length > maxAnswer {
		panic(fmt.Errorf("output: %d bytes, at most %d", length, maxAnswer))
	}
	i.answer, i.answered = read(m, ptr, length), true
}

func abiResult(ctx context.Context, m api.Module, ptr uint32) { write(m, ptr, callOf(ctx).staged) }

// stage keeps a capability's answer for result and packs its status.
func (i *compiledInstance) stage(answer []byte, err error) uint64 {
	if err == nil {
		i.staged = answer
		return abi.Status(0, uint32(len(answer)))
	}
	message := abi.Proto(err)
	// Encoding fails for no value of this type.
	i.staged, _ = message.MarshalVT()
	return abi.Status(uint32(message.Code), uint32(len(i.staged)))
}

func logWrite(ctx context.Context, m api.Module, level, msg, msgLen, fields, fieldsLen uint32) {
	callOf(ctx).host.LogWrite(level, string(read(m, msg, msgLen)), read(m, fields, fieldsLen))
}

func taskEvent(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(nil, i.host.TaskEvent(read(m, ptr, length)))
}

func taskRefresh(ctx context.Context) { callOf(ctx).host.TaskRefresh() }

func taskOutput(ctx context.Context, m api.Module, stream, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(nil, i.host.TaskOutput(stream, read(m, ptr, length)))
}

func taskMark(ctx context.Context, m api.Module, stream, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(nil, i.host.TaskMark(stream, read(m, ptr, length)))
}

func taskMarked(ctx context.Context, stream uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.TaskMarked(stream))
}

func wasmStart(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.WasmStart(read(m, ptr, length)))
}

func processStart(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.ProcessStart(read(m, ptr, length)))
}

func processSupport(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.ProcessSupport(read(m, ptr, length)))
}

func processRun(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.ProcessRun(read(m, ptr, length)))
}

// moved is the status of a function that moves bytes.
func (i *compiledInstance) moved(n int, err error) uint64 {
	switch {
	case errors.Is(err, hostcall.ErrWouldBlock):
		i.staged = nil
		return abi.Status(uint32(abi.Unavailable), 0)
	case err != nil:
		return i.stage(nil, err)
	}
	return abi.Status(0, uint32(n))
}

func streamRead(ctx context.Context, m api.Module, stream, ptr, length uint32) uint64 {
	i := callOf(ctx)
	p := make([]byte, min(length, maxMoved))
	n, err := i.host.StreamRead(stream, p)
	write(m, ptr, p[:n])
	return i.moved(n, err)
}

func streamWrite(ctx context.Context, m api.Module, stream, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.moved(i.host.StreamWrite(stream, read(m, ptr, min(length, maxMoved))))
}

func streamShutdown(ctx context.Context, stream uint32) uint64 {
	i := callOf(ctx)
	return i.stage(nil, i.host.StreamShutdown(stream))
}

func streamClose(ctx context.Context, stream uint32) uint64 {
	i := callOf(ctx)
	return i.stage(nil, i.host.StreamClose(stream))
}

func streamBlocking(ctx context.Context, stream, on uint32) uint64 {
	i := callOf(ctx)
	return i.stage(nil, i.host.StreamBlocking(stream, on != 0))
}

func streamPoll(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.StreamPoll(read(m, ptr, length)))
}

func netDial(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.NetDial(read(m, ptr, length)))
}

func httpRequest(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.HTTPRequest(read(m, ptr, length)))
}

func httpResponse(ctx context.Context, stream uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.HTTPResponse(stream))
}

func httpTrailers(ctx context.Context, stream uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.HTTPTrailers(stream))
}

func kvGet(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.KVGet(read(m, ptr, length)))
}

func kvSet(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.KVSet(read(m, ptr, length)))
}

func kvDelete(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.KVDelete(read(m, ptr, length)))
}

func kvList(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.KVList(read(m, ptr, length)))
}

func execOpen(ctx context.Context) uint64 {
	i := callOf(ctx)
	return i.stage(i.host.ExecOpen())
}

// ofWorkload is a function of wasmnode:workload/v1.
func ofWorkload(function string) func(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
	return func(ctx context.Context, m api.Module, ptr, length uint32) uint64 {
		i := callOf(ctx)
		return i.stage(i.host.Workload(function, read(m, ptr, length)))
	}
}
