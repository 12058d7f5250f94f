package drivertest

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/wasm"
)

// The bounds of task events, see abi/ABI.md.
const (
	maxEventMessage = 1 << 10
	maxAnnotations  = 32
)

// callHost answers the capabilities of one call.
type callHost struct {
	*records
	operation string
	taskID    string // empty: the call is about no task
	started   atomic.Bool
	streams   *streams
	command   *openedCommand // nil: the call is about none
}

// denied refuses what needs a grant before there are any.
func (h *callHost) denied() error {
	if h.operation == abi.OpDriverDescribe || h.operation == abi.OpDeviceDescribe {
		return abi.NewError(abi.PermissionDenied, "describe has no capabilities")
	}
	return nil
}

func (h *callHost) LogWrite(level uint32, message string, fields []byte) {
	line := LogLine{Level: "info", Message: message, Fields: make(map[string]string)}
	if name, ok := wasmnodev1.LogLevel_name[int32(level)]; ok && level != 0 {
		line.Level = strings.ToLower(strings.TrimPrefix(name, "LOG_LEVEL_"))
	}
	var decoded wasmnodev1.LogFields
	if err := decoded.UnmarshalVT(fields); err != nil {
		line.Fields["undecodable"] = err.Error()
	}
	for _, f := range decoded.Fields {
		line.Fields[f.Key] = f.Value
	}
	h.log(line)
}

func (h *callHost) TaskEvent(event []byte) error {
	if err := h.denied(); err != nil {
		return err
	}
	e := new(Event)
	if err := e.UnmarshalVT(event); err != nil {
		return abi.NewError(abi.InvalidArgument, "event: "+err.Error())
	}
	if h.operation == abi.OpDriverConfigure || strings.HasPrefix(h.operation, "device_") {
		return abi.NewError(abi.FailedPrecondition, "event: a call of "+h.operation+" cannot send task events")
	}
	if h.taskID != "" && e.TaskId != h.taskID {
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("event: this call is about task %s, not %s", h.taskID, e.TaskId))
	}
	if len(e.Annotations) > maxAnnotations {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("event: %d annotations, at most %d", len(e.Annotations), maxAnnotations))
	}
	e.Message = strings.ToValidUTF8(e.Message[:min(len(e.Message), maxEventMessage)], "")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	return nil
}

func (h *callHost) TaskRefresh() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refreshes++
}

func (h *callHost) TaskOutput(stream uint32, data []byte) error {
	switch {
	case h.taskID == "":
		return abi.NewError(abi.FailedPrecondition, "output: this call is has no task")
	case stream != 1 && stream != 2:
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("output: no stream %d", stream))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outputs[stream].Write(data)
	return nil
}

// maxMark is how many bytes are remembered with a stream, see abi/ABI.md.
const maxMark = 256

func (h *callHost) TaskMark(stream uint32, mark []byte) error {
	switch {
	case h.taskID == "":
		return abi.NewError(abi.FailedPrecondition, "mark: this call has no task")
	case stream != 1 && stream != 2:
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mark: no stream %d", stream))
	case len(mark) > maxMark:
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mark: %d bytes, at most %d", len(mark), maxMark))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.marks == nil {
		h.marks = map[string]outputMark{}
	}
	h.marks[fmt.Sprint(h.taskID, stream)] = outputMark{append([]byte(nil), mark...), h.outputs[stream].Len()}
	return nil
}

func (h *callHost) TaskMarked(stream uint32) ([]byte, error) {
	if h.taskID == "" {
		return nil, abi.NewError(abi.FailedPrecondition, "marked: this call has no task")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok := h.marks[fmt.Sprint(h.taskID, stream)]
	if !ok {
		return nil, nil
	}
	return (&wasmnodev1.OutputMark{Mark: m.mark, BytesSince: uint64(h.outputs[stream].Len() - m.at)}).MarshalVT()
}

func (h *callHost) TaskDirs() (task, alloc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dirs := h.dirs[h.taskID]
	return dirs.GetTask(), dirs.GetShared()
}

func (h *callHost) WasmStart(request []byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	if h.operation != abi.OpDriverStartTask && h.operation != abi.OpDriverRecoverTask {
		return nil, abi.NewError(abi.FailedPrecondition, "start: not in "+h.operation)
	}
	p := new(wasm.Program)
	if err := p.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "start: "+err.Error())
	}
	if err := checkProgram(p); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuseWasm != nil {
		return nil, h.refuseWasm
	}
	if h.started.Swap(true) {
		return nil, abi.NewError(abi.AlreadyExists, "start: the task has a workload")
	}
	h.programs = append(h.programs, p)
	h.workloads.put(h.taskID, nil)
	return (&wasmnodev1.WasmStartResponse{WorkloadId: h.taskID}).MarshalVT()
}

func checkProgram(p *wasm.Program) error {
	if p.Module == "" {
		return abi.NewError(abi.InvalidArgument, "start: no module")
	}
	for _, m := range p.Mounts {
		if m.HostPath == "" || !strings.HasPrefix(m.TaskPath, "/") {
			return abi.NewError(abi.InvalidArgument, fmt.Sprintf("start: mount %q at %q: no path, or one that is not absolute", m.HostPath, m.TaskPath))
		}
		if !filepath.IsAbs(m.HostPath) && !filepath.IsLocal(m.HostPath) {
			return abi.NewError(abi.PermissionDenied, fmt.Sprintf("start: mount %q leads out of the task's directory", m.HostPath))
		}
	}
	return nil
}
