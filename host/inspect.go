package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/engine"
	"github.com/wasmnode/wasmnode/host/scan"
)

// Kind is what a plugin is for.
type Kind string

// The kinds.
const (
	KindDriver Kind = "driver"
	KindDevice Kind = "device"
)

// Spec is what a plugin's file says of itself, read without running any of it: the
// same on every machine.
type Spec struct {
	*scan.Spec
	Kind Kind
	// Capabilities are the host modules that it imports, sorted.
	Capabilities []string
	// Operations are those of its exports that the contract knows, sorted.
	Operations []string
}

// Inspect reads a plugin's file of at most maxBytes. The error says what is wrong
// with the file and what to do, on one line.
func Inspect(wasm []byte, maxBytes int) (*Spec, error) {
	if len(wasm) > maxBytes {
		return nil, &engine.StageError{Stage: engine.StageRead, Err: fmt.Errorf("the file has %d bytes, the limit is %d", len(wasm), maxBytes)}
	}
	s, err := scan.Read(wasm, scan.DefaultLimits())
	if err != nil {
		return nil, &engine.StageError{Stage: engine.StageScan, Err: advise(err)}
	}
	spec := &Spec{Spec: s, Capabilities: slices.Sorted(slices.Values(s.ImportedModules()))}
	if err := spec.check(); err != nil {
		return nil, &engine.StageError{Stage: engine.StagePolicy, Err: err}
	}
	return spec, nil
}

// advise adds to a scanner's error what a person can do about it.
func advise(err error) error {
	switch {
	case errors.Is(err, scan.ErrComponent):
		return fmt.Errorf("%w: build a core module instead (in Go: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared)", err)
	case errors.Is(err, scan.ErrTruncated):
		return fmt.Errorf("%w: the file ends early; was it copied whole?", err)
	}
	return err
}

// check compares a module with the contract.
func (s *Spec) check() error {
	for _, i := range s.Imports {
		if err := checkImport(i); err != nil {
			return err
		}
	}
	for _, op := range slices.Concat(driverOps, deviceOps) {
		e := s.Export(scan.KindFunc, op)
		if e == nil {
			continue
		}
		if e.Func == nil || !isOperation(*e.Func) {
			return fmt.Errorf("export %s is not a function (input_len: i32) -> i32, as an operation has to be", op)
		}
		s.Operations = append(s.Operations, op)
	}
	slices.Sort(s.Operations)
	return s.checkKind()
}

// checkKind decides what the plugin is for, and that it has what that needs.
func (s *Spec) checkKind() error {
	has := func(op string) bool { return slices.Contains(s.Operations, op) }
	required := abi.RequiredDriverOps
	switch {
	case s.IsCommand:
		return errors.New("a WASI command (it exports _start), not a plugin: build a reactor (in Go: -buildmode=c-shared; in C: -mexec-model=reactor)")
	case has(abi.OpDriverDescribe):
		s.Kind = KindDriver
	case has(abi.OpDeviceDescribe):
		s.Kind = KindDevice
		required = deviceOps
	default:
		return fmt.Errorf("not a plugin: it exports neither %s nor %s", abi.OpDriverDescribe, abi.OpDeviceDescribe)
	}
	var missing []string
	for _, op := range required {
		if !has(op) {
			missing = append(missing, op)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a %s plugin has to export %s", s.Kind, strings.Join(missing, ", "))
	}
	if s.Memory == nil || !s.Memory.Exported {
		return errors.New("a plugin has to export its memory, by the name \"memory\"")
	}
	return nil
}

func isOperation(t scan.FuncType) bool {
	return slices.Equal(t.Params, []scan.ValType{scan.I32}) && slices.Equal(t.Results, []scan.ValType{scan.I32})
}

// checkImport refuses what no host of this version links.
func checkImport(i scan.Import) error {
	known, ok := capabilityFuncs[i.Module]
	switch {
	case i.Module == abi.ModuleWASI && i.Kind == scan.KindFunc:
		return nil
	case i.Kind != scan.KindFunc:
		return fmt.Errorf("import %s.%s is a %v: only functions can be imported", i.Module, i.Name, i.Kind)
	case ok && slices.Contains(known, i.Name):
		return nil
	case ok:
		return fmt.Errorf("import %s.%s: %s has no such function, but %s", i.Module, i.Name, i.Module, strings.Join(known, ", "))
	}
	if name, version, isOurs := cutVersion(i.Module); isOurs {
		for module := range capabilityFuncs {
			if n, v, _ := cutVersion(module); n == name {
				return fmt.Errorf("import %s: this node speaks %s%s/%s, the plugin %s: build it against %s", i.Module, abi.ModulePrefix, n, v, version, v)
			}
		}
	}
	return fmt.Errorf("import %s.%s: this node has no module %q", i.Module, i.Name, i.Module)
}

// cutVersion splits "wasmnode:NAME/VERSION".
func cutVersion(module string) (name, version string, ok bool) {
	rest, ours := strings.CutPrefix(module, abi.ModulePrefix)
	if !ours {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// capabilityFuncs are the modules of ours that a plugin may import, and their
// functions.
var capabilityFuncs = map[string][]string{
	abi.ModuleABI:  {abi.FuncInput, abi.FuncOutput, abi.FuncResult},
	abi.ModuleLog:  {abi.FuncLogWrite},
	abi.ModuleTask: {abi.FuncTaskEvent, abi.FuncTaskRefresh, abi.FuncTaskOutput},
	abi.ModuleWasm: {abi.FuncWasmStart},
}

var (
	driverOps = []string{
		abi.OpDriverDescribe, abi.OpDriverConfigure, abi.OpDriverFingerprint, abi.OpDriverStartTask,
		abi.OpDriverRecoverTask, abi.OpDriverWaitTask, abi.OpDriverStopTask, abi.OpDriverSignalTask,
		abi.OpDriverDestroyTask, abi.OpDriverInspectTask, abi.OpDriverTaskStats, abi.OpDriverExecTask,
	}
	deviceOps = []string{
		abi.OpDeviceDescribe, abi.OpDeviceConfigure, abi.OpDeviceFingerprint, abi.OpDeviceReserve, abi.OpDeviceStats,
	}
)
