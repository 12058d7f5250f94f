package scan

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

// Limits bounds what a module may contain; a field that is zero takes its default.
type Limits = wasmbin.Limits

// Error is the type of every error that [Read] returns. Its text begins with the
// position, as in
//
//	offset 0x1a: type section: count 4294967295 exceeds the 12 bytes that remain
type Error = wasmbin.Error

// The kinds of [Error]; ask with errors.Is.
var (
	ErrNotWasm     = wasmbin.ErrNotWasm     // something else than WebAssembly
	ErrTruncated   = wasmbin.ErrTruncated   // ends early, such as a copy in progress
	ErrComponent   = wasmbin.ErrComponent   // a component, not a core module
	ErrUnsupported = wasmbin.ErrUnsupported // uses a feature outside the pinned set
	ErrLimit       = wasmbin.ErrLimit       // exceeds one of the limits
	ErrMalformed   = wasmbin.ErrMalformed   // breaks the binary format otherwise
)

// DefaultLimits returns the limits for untrusted modules; each documents why it
// is what it is where [Limits] is declared.
func DefaultLimits() Limits { return wasmbin.DefaultLimits() }

// Read reads a module, function bodies included, and describes what is in it. Errors are of
// type [*Error].
func Read(src Source, limits Limits) (*Module, error) {
	m, err := wasmbin.Decode(src.Bytes(), limits)
	if err != nil {
		return nil, err
	}
	s := &Spec{Size: src.Size(), Digest: src.Digest(), Layer: LayerCore}
	if s.Code, err = readCode(m); err != nil {
		return nil, err
	}
	describe(s, m)
	return &Module{Spec: s, Binary: m}, nil
}

func readCode(m *wasmbin.Module) (Code, error) {
	c := Code{Functions: len(m.Funcs)}
	if len(m.Funcs) == 0 {
		return c, nil
	}
	budget := m.CompileBudget()
	w := m.Walk(0)
	for i := range m.Funcs {
		w.Reset(m, i)
		for w.Next() {
			c.Instructions++
			c.Nesting = max(c.Nesting, w.Depth)
		}
		if err := w.Err(); err != nil {
			return c, err
		}
		if err := budget.Spend(w); err != nil {
			return c, err
		}
		c.Bytes += w.Size()
		c.Largest = max(c.Largest, w.Size())
	}
	spent := budget.Spent()
	c.CompileWork, c.CompileBytes = spent.Nanos, spent.Bytes
	return c, nil
}

func describe(s *Spec, m *wasmbin.Module) {
	s.Types, s.Imports, s.Exports = m.Types, m.Imports, m.Exports
	s.Globals = m.GlobalCount()
	s.DataSegments, s.DataBytes = m.DataSegments(), m.DataBytes()
	s.ElementSegments = m.ElementSegments()
	s.Start = m.Start
	if m.Memory != nil {
		s.Memory = &Memory{Range: *m.Memory}
	}
	for i := range m.Imports {
		switch p := &m.Imports[i]; p.Kind {
		case wasmbin.KindMemory:
			s.Memory = &Memory{Range: *p.Memory, Imported: true}
		case wasmbin.KindTable:
			s.Tables = append(s.Tables, Table{Table: *p.Table, Imported: true})
		}
	}
	for _, t := range m.Tables {
		s.Tables = append(s.Tables, Table{Table: t})
	}
	for _, e := range m.Exports {
		switch {
		case e.Kind == wasmbin.KindMemory:
			s.Memory.Exported = true
		case e.Kind == wasmbin.KindFunc && e.Name == exportStart:
			s.IsCommand = true
		case e.Kind == wasmbin.KindFunc && e.Name == exportInitialize:
			s.IsReactor = true
		}
	}
	s.Customs = m.Customs
	for _, c := range m.Customs {
		if c.Name == "producers" {
			s.Producers = readProducers(m.Content(c))
		}
	}
}
