package wasmbin

import "cmp"

// Limits bounds what a module may contain. A field that is zero takes the value
// of [DefaultLimits]; there is no way to say "unlimited".
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
	Globals       uint32 // without the imported ones
	Tags          uint32 // without the imported ones
	Exports       uint32
	Elements      uint32 // element segments
	DataSegments  uint32
	Customs       uint32 // custom sections
	CompileWork   uint64 // estimated time of compilation in nanoseconds, see [Walker.Work]
	CompileBytes  uint64 // estimated memory of compilation

	Features Features // switched on beyond WebAssembly 2.0; 0 takes the default, too
}

// DefaultLimits returns the limits for modules from strangers. They bound what the
// engine's decoder allocates, and the time and memory of its compiler. For comparison: a Go
// program of 6.5 MB (JSON, templates, regular expressions) has 6,000 functions, the largest
// of 50 KB with 550 nested blocks and 21 locals, 60 types, and takes 2 s to compile,
// estimated at 7; one of 14 MB takes 5 s and 241 MB, estimated at 15 s and 228 MB.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes: 64 << 20,
		// What is kept of a type or an export is some dozen times what it takes in
		// the file; these three stay within the constant that a scan may need.
		Types:   5_000,
		Exports: 5_000,
		Imports: 1_000,
		// The format allows 1,000; each is a value in a register or on the stack.
		Params:    128,
		Functions: 200_000,
		// The compiler needs up to 1.7 KB for each byte of straight code, and more for some
		// shapes; see CompileBytes.
		FunctionBytes: 256 << 10,
		// Each is a variable in every block that the compiler makes; see CompileWork.
		Locals: 5_000,
		// 75,000 nested blocks take 9 s, in proportion to their square; 10,000 take
		// 0.2 s. Go nests one block for each call of a function.
		Nesting: 10_000,
		Targets: 1 << 16,
		// A table costs eight bytes of the host's memory for each element, at once.
		Tables:        16,
		TableElements: 1 << 20,
		MemoryPages:   1 << 16,
		Globals:       10_000,
		Tags:          100,
		Elements:      10_000,
		// Go programs have one for every run of bytes between zeros: 10,000 for
		// each MB.
		DataSegments: 500_000,
		Customs:      256,
		// A minute, in which one core is busy and other modules wait.
		CompileWork: 60 * second,
		// What the compiler's process is given of memory, see package sandbox.
		CompileBytes: 256 << 20,
		Features:     Pinned,
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
	l.CompileBytes = cmp.Or(l.CompileBytes, d.CompileBytes)
	l.Features = cmp.Or(l.Features, d.Features)
	return l
}
