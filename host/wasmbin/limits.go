package wasmbin

import "cmp"

// Limits bounds what a module may contain. A field that is zero takes the value
// of [DefaultLimits]; there is no way to say "unlimited".
//
// The defaults are for modules from strangers: they bound what the engine's
// decoder allocates and how long its compiler runs, which nothing can interrupt.
// What programs of today need is far below them (measured: a 3 MiB Go plugin has
// 3,600 functions, the largest of 30 KB and 900 deep, and 31,000 data segments).
type Limits struct {
	ModuleBytes   int    // the whole file
	Types         uint32 // function types
	Params        uint32 // parameters of one function type, and results of one
	Imports       uint32 // imports of any kind
	Functions     uint32 // functions with a body
	FunctionBytes uint32 // one body
	Locals        uint32 // of one function, with its parameters
	Nesting       uint32 // blocks within blocks in one function
	Targets       uint32 // of one br_table, or the catch clauses of one try_table
	Tables        uint32 // with the imported ones
	TableElements uint32 // initial elements, of all tables together
	MemoryPages   uint32 // initial pages of 64 KiB
	Globals       uint32
	Tags          uint32
	Exports       uint32
	Elements      uint32 // element segments
	DataSegments  uint32
	Customs       uint32 // custom sections
	CompileWork   uint64 // estimated cost of compilation, see [Walker.Work]

	Features Features // switched on beyond WebAssembly 2.0
}

// DefaultLimits returns the limits for untrusted modules.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes:   64 << 20,
		Types:         5_000,
		Params:        128,
		Imports:       1_000,
		Functions:     200_000,
		FunctionBytes: 1 << 20,
		Locals:        5_000,
		Nesting:       10_000,
		Targets:       20_000,
		Tables:        16,
		TableElements: 1 << 20,
		MemoryPages:   1 << 16,
		Globals:       10_000,
		Tags:          100,
		Exports:       5_000,
		Elements:      10_000,
		DataSegments:  500_000,
		Customs:       256,
		CompileWork:   1 << 30,
		Features:      Pinned,
	}
}

// orDefault fills what is zero.
func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	l.ModuleBytes = cmp.Or(l.ModuleBytes, d.ModuleBytes)
	l.Types = cmp.Or(l.Types, d.Types)
	l.Params = cmp.Or(l.Params, d.Params)
	l.Imports = cmp.Or(l.Imports, d.Imports)
	l.Functions = cmp.Or(l.Functions, d.Functions)
	l.FunctionBytes = cmp.Or(l.FunctionBytes, d.FunctionBytes)
	l.Locals = cmp.Or(l.Locals, d.Locals)
	l.Nesting = cmp.Or(l.Nesting, d.Nesting)
	l.Targets = cmp.Or(l.Targets, d.Targets)
	l.Tables = cmp.Or(l.Tables, d.Tables)
	l.TableElements = cmp.Or(l.TableElements, d.TableElements)
	l.MemoryPages = cmp.Or(l.MemoryPages, d.MemoryPages)
	l.Globals = cmp.Or(l.Globals, d.Globals)
	l.Tags = cmp.Or(l.Tags, d.Tags)
	l.Exports = cmp.Or(l.Exports, d.Exports)
	l.Elements = cmp.Or(l.Elements, d.Elements)
	l.DataSegments = cmp.Or(l.DataSegments, d.DataSegments)
	l.Customs = cmp.Or(l.Customs, d.Customs)
	l.CompileWork = cmp.Or(l.CompileWork, d.CompileWork)
	l.Features = cmp.Or(l.Features, d.Features)
	return l
}
