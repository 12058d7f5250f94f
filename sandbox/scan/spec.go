package scan

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

// The plain data that a Spec is made of.
type (
	// FuncType is the type of a function.
	FuncType = wasmbin.FuncType
	// ValType is a value type.
	ValType = wasmbin.ValType
	// Import is one import.
	Import = wasmbin.Import
	// Export is one export.
	Export = wasmbin.Export
	// Kind is what an import or export is.
	Kind = wasmbin.Kind
	// Custom is a custom section's name and size.
	Custom = wasmbin.Custom
)

// The kinds of imports and exports.
const (
	KindFunc   = wasmbin.KindFunc
	KindTable  = wasmbin.KindTable
	KindMemory = wasmbin.KindMemory
	KindGlobal = wasmbin.KindGlobal
	KindTag    = wasmbin.KindTag
)

// The value types that capabilities use.
const (
	I32 = wasmbin.I32
	I64 = wasmbin.I64
	F32 = wasmbin.F32
	F64 = wasmbin.F64
)

// LayerCore is the layer of every module that [Read] accepts. Components are
// refused with [ErrComponent].
const LayerCore = "core"

const (
	exportStart      = "_start"
	exportInitialize = "_initialize"
)

// Spec is a module's description of itself. It must not be changed, and may be read
// by several goroutines.
type Spec struct {
	Size   int    // of the file, in bytes
	Digest string // SHA-256 of the file, in hexadecimal
	Layer  string // always LayerCore

	Types   []FuncType
	Imports []Import
	Exports []Export
	Memory  *Memory // nil when there is none
	Tables  []Table
	Globals int // how many, with the imported ones
	Start   int // the index of the start function, -1 for none

	Code            Code
	DataSegments    int
	DataBytes       int
	ElementSegments int

	Customs   []Custom
	Producers []Producer // what made the file, as far as it is declared

	// IsCommand: the module is a WASI command, run once through its export _start.
	// IsReactor: it is a WASI reactor, set up through its export _initialize and
	// then called. A module can be neither.
	IsCommand bool
	IsReactor bool
}

// Memory is the module's memory; its size is in pages.
type Memory struct {
	wasmbin.Range
	Imported bool
	Exported bool
}

// Table is a table of the module.
type Table struct {
	wasmbin.Table
	Imported bool
}

// Code is about all function bodies together.
type Code struct {
	Functions    int // that have a body
	Bytes        int
	Instructions int
	Largest      int    // function, in bytes
	Nesting      int    // of blocks, at the deepest
	CompileWork  uint64 // estimated time of compilation in nanoseconds
	CompileBytes uint64 // estimated memory of compilation
}

// Producer is an entry of the producers section, such as language Go go1.26.
type Producer struct {
	Field   string // language, processed-by or sdk
	Name    string
	Version string
}

// Export returns the export of that name and kind, or nil.
func (s *Spec) Export(kind Kind, name string) *Export {
	for i := range s.Exports {
		if e := &s.Exports[i]; e.Kind == kind && e.Name == name {
			return e
		}
	}
	return nil
}

// ImportedModules returns the names of the host modules that the module imports
// from, each once, in the order of the file.
func (s *Spec) ImportedModules() []string {
	var names []string
	seen := map[string]bool{}
	for _, p := range s.Imports {
		if !seen[p.Module] {
			seen[p.Module] = true
			names = append(names, p.Module)
		}
	}
	return names
}
