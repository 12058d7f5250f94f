package wasmbin

// Editor writes a module again with additions. What is added comes after what is
// there, except that an added import takes the index after the imported functions
// and moves the others up by one; every mention of a function is written
// accordingly. An Editor is for one goroutine.
type Editor struct {
	m      *Module
	c      context
	types  []FuncType
	yield  *addedImport
	funcs  []addedFunc
	global []addedGlobal
	export []Export

	customs   []addedCustom
	bodies    [][]byte
	starts    []uint32 // of the bodies, once they are written
	segments  []Segment
	replaced  bool   // segments holds all segments
	tableMax  uint32 // when capTables
	capTables bool
}

type addedImport struct {
	module, name string
	typ          uint32
}

type addedFunc struct {
	name string
	typ  uint32
	body []byte
}

type addedCustom struct {
	name    string
	content []byte
}

type addedGlobal struct {
	Global
	init []byte
}

// Edit begins writing m again. Without any change, [Editor.Encode] gives the
// module in canonical form without its custom sections, function names excepted.
func (m *Module) Edit() *Editor {
	return &Editor{m: m, c: m.ctx, bodies: make([][]byte, len(m.Funcs))}
}

// AddType adds a function type and returns its index.
func (e *Editor) AddType(t FuncType) uint32 {
	e.types = append(e.types, t)
	return e.c.types + uint32(len(e.types)) - 1
}

// ImportFunc adds one imported function and returns its index. It is called at
// most once, and before any walk.
func (e *Editor) ImportFunc(module, name string, typ uint32) uint32 {
	e.yield = &addedImport{module, name, typ}
	e.c.addedImports = 1
	return e.c.importedFuncs
}

// AddFunc adds a function, whose body starts with the declarations of its locals,
// and returns its index. The name is for stack traces.
func (e *Editor) AddFunc(name string, typ uint32, body []byte) uint32 {
	e.funcs = append(e.funcs, addedFunc{name, typ, body})
	return e.c.funcs + e.c.addedImports + uint32(len(e.funcs)) - 1
}

// AddGlobal adds a global with the given constant expression as its initial value,
// and returns its index.
func (e *Editor) AddGlobal(g Global, init []byte) uint32 {
	e.global = append(e.global, addedGlobal{g, init})
	return e.c.globals + uint32(len(e.global)) - 1
}

// AddExport exports something more.
func (e *Editor) AddExport(x Export) { e.export = append(e.export, x) }

// AddCustom adds a custom section.
func (e *Editor) AddCustom(name string, content []byte) {
	e.customs = append(e.customs, addedCustom{name, content})
}

// BodyOffsets returns, once the module is encoded, where the body of each function that has one
// begins, from the content of the written code section on.
func (e *Editor) BodyOffsets() []uint32 { return e.starts }

// SetSegments replaces all data segments.
func (e *Editor) SetSegments(s []Segment) { e.segments, e.replaced = s, true }

// Segments returns how many data segments were written.
func (e *Editor) Segments() int { return len(e.segments) }

// LimitTables gives every table of the module's own a maximum of at most n
// elements (and never below its initial size): growing past it fails, as the
// format allows at any size.
func (e *Editor) LimitTables(n uint32) { e.tableMax, e.capTables = n, true }

// Reset makes w read the body of the i-th function that has one, in such a way
// that [Walker.Bytes] fits what is going to be written.
func (e *Editor) Reset(w *Walker, i int) { w.reset(e.m, &e.c, i) }

// SetBody replaces the body of the i-th function that has one. The body starts
// with the declarations of its locals and must stay as it is.
func (e *Editor) SetBody(i int, body []byte) { e.bodies[i] = body }
