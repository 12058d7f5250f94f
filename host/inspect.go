package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/scan"
)

// Source is a plugin's file: its content, and its digest, which is computed once.
type Source = scan.Source

// NewSource returns the file of that content, which must not be changed any more.
func NewSource(content []byte) Source { return scan.NewSource(content) }

// Spec is a plugin's file's description of itself, read without running any of it: the
// same on every machine.
type Spec struct {
	*scan.Spec
	Kind Kind
	// Capabilities are the host modules that it imports, sorted.
	Capabilities []string
	// Metadata is what the file says of itself; nil: nothing.
	Metadata *Metadata `json:",omitempty"`
	// Operations are those of its exports that the contract knows, sorted.
	Operations []string
}

// Inspect reads a plugin's file of at most maxBytes. The error describes what is wrong
// with the file and what to do, on one line.
func Inspect(wasm []byte, maxBytes int) (*Spec, error) {
	spec, _, err := inspect(NewSource(wasm), maxBytes)
	return spec, err
}

// inspect also returns the module, for a caller that goes on to compile it.
func inspect(src Source, maxBytes int) (*Spec, *scan.Module, error) {
	if src.Size() > maxBytes {
		return nil, nil, &sandbox.StageError{Stage: sandbox.StageRead, Err: fmt.Errorf("the file has %d bytes, the limit is %d", src.Size(), maxBytes)}
	}
	scanned, err := scan.Read(src, scan.DefaultLimits())
	if err != nil {
		return nil, nil, &sandbox.StageError{Stage: sandbox.StageScan, Err: advise(err)}
	}
	spec := &Spec{Spec: scanned.Spec, Capabilities: slices.Sorted(slices.Values(scanned.ImportedModules()))}
	if spec.Metadata, err = readMetadata(scanned); err == nil {
		err = spec.check()
	}
	if err != nil {
		return nil, nil, &sandbox.StageError{Stage: sandbox.StagePolicy, Err: err}
	}
	return spec, scanned, nil
}

// advise adds to a scanner's error what a person can do about it.
func advise(err error) error {
	switch {
	case errors.Is(err, scan.ErrComponent):
		return fmt.Errorf("%w; a plugin is a reactor (in Go: -buildmode=c-shared; in C: -mexec-model=reactor)", err)
	case errors.Is(err, scan.ErrTruncated):
		return fmt.Errorf("%w; was the file copied whole?", err)
	}
	return err
}

// check compares a module with the contract.
func (s *Spec) check() error {
	// The first of all: what else is wrong may follow from it.
	if err := s.Metadata.checkABI(); err != nil {
		return err
	}
	for _, i := range s.Imports {
		if err := checkImport(i); err != nil {
			return err
		}
	}
	for _, op := range slices.Concat(driverOps, deviceOps) {
		i := slices.IndexFunc(s.Exports, func(e scan.Export) bool { return e.Name == op })
		if i < 0 {
			continue
		}
		if e := s.Exports[i]; e.Kind != scan.KindFunc {
			return fmt.Errorf("export %s is a %v, but has to be a function (input_len: i32) -> i32", op, e.Kind)
		} else if signature(*e.Func) != "i>i" {
			return fmt.Errorf("export %s is of type %v, but has to be (input_len: i32) -> i32", op, e.Func)
		}
		s.Operations = append(s.Operations, op)
	}
	slices.Sort(s.Operations)
	return s.checkKind()
}

// Links reports whether the plugin imports a function.
func (s *Spec) Links(module, name string) bool {
	return slices.ContainsFunc(s.Imports, func(i scan.Import) bool { return i.Module == module && i.Name == name })
}

// checkKind decides what the plugin is for, and that it has what that needs.
func (s *Spec) checkKind() error {
	has := func(op string) bool { return slices.Contains(s.Operations, op) }
	s.Kind = kindOf(s.Operations)
	switch {
	case s.IsCommand:
		return errors.New("a WASI command (it exports _start), not a plugin: build a reactor (in Go: -buildmode=c-shared; in C: -mexec-model=reactor)")
	case s.Kind == "":
		return fmt.Errorf("not a plugin: it exports neither %s nor %s", abi.OpDriverDescribe, abi.OpDeviceDescribe)
	}
	var missing []string
	for _, op := range s.Kind.required() {
		if !has(op) {
			missing = append(missing, op)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a %s plugin has to export %s", s.Kind, strings.Join(missing, ", "))
	}
	return s.checkModule()
}

// checkModule compares what is not an operation with the contract.
func (s *Spec) checkModule() error {
	if s.Export(scan.KindMemory, "memory") == nil {
		return errors.New("a plugin has to export its memory, by the name \"memory\"")
	}
	if e := s.Export(scan.KindFunc, abi.ExportInitialize); e != nil && signature(*e.Func) != ">" {
		return fmt.Errorf("export %s is of type %v, but has to be () -> ()", abi.ExportInitialize, e.Func)
	}
	return nil
}

// checkImport refuses what no host of this version links.
func checkImport(i scan.Import) error {
	known, ok := importable[i.Module]
	if !ok {
		return unknownModule(i)
	}
	if i.Kind != scan.KindFunc {
		return fmt.Errorf("import %s.%s is a %v: only functions can be imported", i.Module, i.Name, i.Kind)
	}
	want, ok := known[i.Name]
	if !ok {
		return fmt.Errorf("import %s.%s: %s has no such function", i.Module, i.Name, i.Module)
	}
	if got := signature(*i.Func); got != want {
		return fmt.Errorf("import %s.%s is declared as %v, but is %s", i.Module, i.Name, i.Func, formatSignature(want))
	}
	return nil
}

// unknownModule describes why a module cannot be imported from.
func unknownModule(i scan.Import) error {
	if name, version, isOurs := cutVersion(i.Module); isOurs {
		for module := range importable {
			if n, v, _ := cutVersion(module); n == name {
				return fmt.Errorf("import %s: this node supports %s, the plugin needs %s: build it against %s", i.Module, module, version, v)
			}
		}
	}
	return fmt.Errorf("import %s of %q: this node has no such module, only %s", i.Name, i.Module,
		strings.Join(slices.Sorted(maps.Keys(importable)), ", "))
}

// signature writes a function's type as the tables of importable functions do.
func signature(t scan.FuncType) string {
	var b strings.Builder
	list := func(types []scan.ValType) {
		for _, v := range types {
			switch v {
			case scan.I32:
				b.WriteByte('i')
			case scan.I64:
				b.WriteByte('I')
			default:
				b.WriteByte('?')
			}
		}
	}
	list(t.Params)
	b.WriteByte('>')
	list(t.Results)
	return b.String()
}

// formatSignature writes a signature as people do.
func formatSignature(signature string) string {
	params, results, _ := strings.Cut(signature, ">")
	list := func(s string) string {
		names := strings.Split(s, "")
		for i, n := range names {
			names[i] = map[string]string{"i": "i32", "I": "i64"}[n]
		}
		return strings.Join(names, ", ")
	}
	if len(results) == 1 {
		return "(" + list(params) + ") -> " + list(results)
	}
	return "(" + list(params) + ") -> (" + list(results) + ")"
}

// cutVersion splits "wasmnode:NAME/VERSION".
func cutVersion(module string) (name, version string, ok bool) {
	rest, ours := strings.CutPrefix(module, abi.ModulePrefix)
	if !ours {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// importable are the modules that a plugin may import from: their functions, with
// their signatures.
var importable = func() map[string]map[string]string {
	modules := map[string]map[string]string{abi.ModuleWASI: wasiFuncs}
	for module, funcs := range capabilities {
		modules[module] = signatures(funcs)
	}
	return modules
}()

func signatures(funcs map[string]sandbox.HostFunc) map[string]string {
	out := map[string]string{}
	for name, f := range funcs {
		out[name] = signature(scan.FuncType{Params: scanTypes(f.Params), Results: scanTypes(f.Results)})
	}
	return out
}

func scanTypes(types []api.ValueType) []scan.ValType {
	var out []scan.ValType
	for _, t := range types {
		switch t {
		case api.ValueTypeI32:
			out = append(out, scan.I32)
		case api.ValueTypeI64:
			out = append(out, scan.I64)
		}
	}
	return out
}
