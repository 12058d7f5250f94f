package wasmbin

import (
	"bytes"
	"fmt"
	"math"
)

// Module is what a module declares outside its function bodies. The bodies
// are read by a [Walker], and [Encode] writes the module again. A Module keeps
// the bytes that it was decoded from, is not changed after [Decode], and may be
// used by several goroutines.
type Module struct {
	Types   []FuncType
	Imports []Import
	Funcs   []uint32 // the type of each function with a body
	Tables  []Table  // without the imported ones
	Memory  *Range   // the module's own, nil for none
	Globals []Global // without the imported ones
	Exports []Export
	Start   int // the start function's index, -1 for none
	Customs []Custom

	// HasDataCount: the module announces its data segments, as it must
	// when an instruction names one.
	HasDataCount bool

	bytes         []byte
	importedTypes []*FuncType // of the imported functions

	code   uint32   // where the content of the code section begins
	bodies []uint32 // where each function's body is, after its length
	tags   []uint32 // the type of each tag that is not imported
	elems  []uint32 // where each element segment is
	datas  []uint32 // where each data segment is
	ctx    context
}

// The sections, as they are numbered in the binary format.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	secTag
	sections
)

var sectionNames = [sections]string{
	"custom section", "type section", "import section", "function section", "table section",
	"memory section", "global section", "export section", "start section", "element section",
	"code section", "data section", "data count section", "tag section",
}

// sectionOrder is each section's place in a module.
var sectionOrder = [sections]int{
	secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secTag: 6, secGlobal: 7,
	secExport: 8, secStart: 9, secElement: 10, secDataCount: 11, secCode: 12, secData: 13,
}

var (
	magic       = []byte("\x00asm")
	coreVersion = []byte{1, 0, 0, 0}
)

// Decode reads a module within limits. It checks everything but the function
// bodies, for which see [Module.Walk]. Errors are of type [*Error].
func Decode(b []byte, limits Limits) (*Module, error) {
	limits = limits.orDefault()
	if err := checkHeader(b, limits.ModuleBytes); err != nil {
		return nil, err
	}
	m := &Module{bytes: b, Start: -1, ctx: context{limits: limits}}
	spans, err := m.findSections()
	if err != nil {
		return nil, err
	}
	d := decoder{m: m, c: &m.ctx}
	if err := d.sections(spans); err != nil {
		return nil, err
	}
	return m, nil
}

func checkHeader(b []byte, limit int) error {
	n := min(len(b), len(magic))
	switch {
	case !bytes.Equal(b[:n], magic[:n]):
		return &Error{Kind: ErrNotWasm, What: fmt.Sprintf("not a WebAssembly module: it begins with %q", b[:n])}
	case len(b) < 8:
		return &Error{Offset: len(b), Kind: ErrTruncated, What: "truncated: the file ends within the header"}
	case b[6] == 1 && b[7] == 0:
		return &Error{Offset: 4, Kind: ErrComponent, What: "this is a component, and only core modules run here: " +
			"build for WASI preview 1 instead (GOOS=wasip1, or the target wasm32-wasip1)"}
	case !bytes.Equal(b[4:8], coreVersion):
		return &Error{Offset: 4, Kind: ErrUnsupported, What: fmt.Sprintf("version %x of the binary format is not supported", b[4:8])}
	case len(b) > limit || len(b) > math.MaxInt32:
		return &Error{Kind: ErrLimit, What: fmt.Sprintf("the module has %d bytes, at most %d are allowed", len(b), min(limit, math.MaxInt32))}
	}
	return nil
}

// present marks an empty section as one that is there.
type sectionSpan struct {
	span
	present bool
}

func (m *Module) findSections() (spans [sections]sectionSpan, err error) {
	r := newReader(m.bytes, 8, len(m.bytes), "")
	r.short = ErrTruncated
	last := 0
	for r.more() {
		at := r.pos
		id := r.Byte()
		size := r.U32()
		if r.err == nil && id >= sections {
			r.malformed(at, "section %d is unknown", id)
		}
		if r.err != nil {
			break
		}
		r.Bytes(size, sectionNames[id])
		s := span{r.pos - int(size), r.pos}
		switch {
		case r.err != nil:
		case id == secCustom:
			r.err = m.custom(s)
		case sectionOrder[id] <= last:
			r.malformed(at, "%s is out of order, or there twice", sectionNames[id])
		default:
			last = sectionOrder[id]
			spans[id] = sectionSpan{s, true}
		}
	}
	return spans, r.Err()
}

func (m *Module) custom(s span) *Error {
	r := newReader(m.bytes, s.from, s.to, "custom section")
	if uint64(len(m.Customs)) >= uint64(m.ctx.limits.Customs) {
		r.fail(s.from, ErrLimit, "more than %d custom sections", m.ctx.limits.Customs)
		return r.err
	}
	name := string(r.Name())
	content := span{r.pos, s.to}
	m.Customs = append(m.Customs, Custom{Name: name, Size: content.len(), content: content})
	return r.err
}

// Content returns the content of a custom section of this module; it shares the
// module's memory.
func (m *Module) Content(c Custom) []byte { return m.bytes[c.content.from:c.content.to] }

// FuncType returns the type of a function by its index, imported ones first, or
// nil when there is none.
func (m *Module) FuncType(index uint32) *FuncType {
	n := m.ctx.importedFuncs
	switch {
	case index < n:
		return m.importedTypes[index]
	case uint64(index-n) < uint64(len(m.Funcs)):
		return &m.Types[m.Funcs[index-n]]
	}
	return nil
}

// GlobalCount returns how many globals there are, with the imported ones.
func (m *Module) GlobalCount() int { return int(m.ctx.globals) }

// Limits returns the limits that the module was decoded with.
func (m *Module) Limits() Limits { return m.ctx.limits }
