package wasmbin

// decoder reads the sections of one module, in the order in which they depend on
// each other.
type decoder struct {
	m       *Module
	c       *context
	scratch []byte

	tableCount    uint32 // tables seen
	tableElements uint64 // their initial sizes together
}

func (d *decoder) sections(spans [sections]sectionSpan) error {
	steps := []struct {
		id   int
		read func(*Reader)
	}{
		{secType, d.types},
		{secImport, d.imports},
		{secFunction, d.functions},
		{secMemory, d.memory},
		{secTag, d.tags},
		{secTable, d.count(&d.c.tables)},
		{secGlobal, d.count(&d.c.globals)},
		{secTable, d.tables},
		{secGlobal, d.globals},
		{secExport, d.exports},
		{secStart, d.start},
		{secElement, d.elements},
		{secCode, d.code},
		{secData, d.data},
		{secDataCount, d.dataCount},
	}
	for _, s := range steps {
		if !spans[s.id].present {
			continue
		}
		r := newReader(d.m.bytes, spans[s.id].from, spans[s.id].to, sectionNames[s.id])
		s.read(&r)
		if err := r.Err(); err != nil {
			return err
		}
	}
	return d.bodiesMatch()
}

// count adds a section's count to n before its items are read, since an item may
// name one that comes later.
func (d *decoder) count(n *uint32) func(*Reader) {
	return func(r *Reader) {
		*n += uint32(r.Count(2, 1<<30, "items"))
		r.pos = len(r.b)
	}
}

func (d *decoder) types(r *Reader) {
	n := r.Count(3, d.c.limits.Types, "types")
	d.m.Types = make([]FuncType, n)
	d.c.types = uint32(n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		switch form := r.Byte(); {
		case form == 0x60:
		case form >= 0x4d && form <= 0x5f:
			r.unsupported(at, nameGC)
		default:
			r.malformed(at, "form 0x%x of a type", form)
		}
		d.m.Types[i] = FuncType{Params: d.valTypes(r, "parameters"), Results: d.valTypes(r, "results")}
	}
	r.end()
}

func (d *decoder) valTypes(r *Reader, what string) []ValType {
	n := r.Count(1, d.c.limits.Params, what)
	if n == 0 {
		return nil
	}
	ts := make([]ValType, n)
	for i := range ts {
		ts[i] = d.c.valType(r)
	}
	return ts
}

func (d *decoder) imports(r *Reader) {
	n := r.Count(4, d.c.limits.Imports, "imports")
	d.m.Imports = make([]Import, n)
	for i := 0; i < n && r.err == nil; i++ {
		p := &d.m.Imports[i]
		p.Module, p.Name = string(r.Name()), string(r.Name())
		d.importType(r, p)
	}
	r.end()
}

func (d *decoder) importType(r *Reader, p *Import) {
	at := r.pos
	kind := r.Byte()
	p.Kind = Kind(kind)
	switch p.Kind {
	case KindFunc:
		d.c.funcs++
		d.c.importedFuncs++
		p.index, p.Func = d.typeUse(r)
		d.m.importedTypes = append(d.m.importedTypes, p.Func)
	case KindTable:
		t := d.c.table(r)
		p.Table = &t
		d.c.tables++
		d.addTable(r, at, t)
	case KindMemory:
		l := d.c.rangeOf(r, true)
		p.Memory = &l
		d.addMemory(r, at, l)
	case KindGlobal:
		g := d.c.global(r)
		p.Global = &g
		d.c.globals++
	case KindTag:
		d.c.tags++
		p.index, p.Func = d.tag(r)
	default:
		r.malformed(at, "kind 0x%x of an import", kind)
	}
}

func (d *decoder) typeUse(r *Reader) (uint32, *FuncType) {
	i := d.c.index(r, d.c.types, "type")
	if r.err != nil {
		return 0, nil
	}
	return i, &d.m.Types[i]
}

func (d *decoder) functions(r *Reader) {
	n := r.Count(1, d.c.limits.Functions, "functions")
	d.m.Funcs = make([]uint32, n)
	for i := 0; i < n && r.err == nil; i++ {
		d.m.Funcs[i], _ = d.typeUse(r)
	}
	d.c.funcs += uint32(n)
	r.end()
}

func (d *decoder) addMemory(r *Reader, at int, l Range) {
	d.c.mems++
	if d.c.mems > 1 {
		r.unsupported(at, nameMultiMem)
	}
	if l.Min > d.c.limits.MemoryPages {
		r.fail(at, ErrLimit, "memory of %d pages, at most %d are allowed", l.Min, d.c.limits.MemoryPages)
	}
}

func (d *decoder) memory(r *Reader) {
	n := r.Count(2, 1<<30, "memories")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		l := d.c.rangeOf(r, true)
		d.m.Memory = &l
		d.addMemory(r, at, l)
	}
	r.end()
}

func (d *decoder) addTable(r *Reader, at int, t Table) {
	if d.tableCount++; d.tableCount > d.c.limits.Tables {
		r.fail(at, ErrLimit, "more than %d tables", d.c.limits.Tables)
	}
	d.tableElements += uint64(t.Min)
	if d.tableElements > uint64(d.c.limits.TableElements) {
		r.fail(at, ErrLimit, "%d initial table elements, at most %d are allowed", d.tableElements, d.c.limits.TableElements)
	}
}

func (d *decoder) tables(r *Reader) {
	n := r.Count(3, d.c.limits.Tables, "tables")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		t := d.c.table(r)
		d.addTable(r, at, t)
		d.m.Tables = append(d.m.Tables, t)
	}
	r.end()
}

func (d *decoder) tag(r *Reader) (uint32, *FuncType) {
	at := r.pos
	d.c.need(r, at, ExceptionHandling, nameExceptions)
	if a := r.Byte(); a != 0 {
		r.malformed(at, "attribute 0x%x of a tag", a)
	}
	return d.typeUse(r)
}

func (d *decoder) tags(r *Reader) {
	n := r.Count(2, d.c.limits.Tags, "tags")
	for i := 0; i < n && r.err == nil; i++ {
		t, _ := d.tag(r)
		d.m.tags = append(d.m.tags, t)
	}
	d.c.tags += uint32(n)
	r.end()
}

func (d *decoder) globals(r *Reader) {
	n := r.Count(4, d.c.limits.Globals, "globals")
	d.m.Globals = make([]Global, n)
	for i := 0; i < n && r.err == nil; i++ {
		g := d.c.global(r)
		g.init = r.pos
		d.scratch = d.c.constExpr(r, d.scratch[:0])
		d.m.Globals[i] = g
	}
	r.end()
}

func (d *decoder) exports(r *Reader) {
	n := r.Count(3, d.c.limits.Exports, "exports")
	d.m.Exports = make([]Export, n)
	counts := [...]uint32{KindFunc: d.c.funcs, KindTable: d.c.tables, KindMemory: d.c.mems, KindGlobal: d.c.globals, KindTag: d.c.tags}
	for i := 0; i < n && r.err == nil; i++ {
		e := &d.m.Exports[i]
		e.Name = string(r.Name())
		at := r.pos
		if e.Kind = Kind(r.Byte()); e.Kind > KindTag {
			r.malformed(at, "kind 0x%x of an export", uint8(e.Kind))
			return
		}
		e.Index = d.c.index(r, counts[e.Kind], e.Kind.String())
		if e.Kind == KindFunc && r.err == nil {
			e.Func = d.m.FuncType(e.Index)
		}
	}
	r.end()
}

func (d *decoder) start(r *Reader) {
	d.m.Start = int(d.c.index(r, d.c.funcs, "function"))
	r.end()
}

func (d *decoder) elements(r *Reader) {
	n := r.Count(3, d.c.limits.Elements, "element segments")
	d.m.elems = make([]uint32, n)
	d.c.elems = uint32(n)
	for i := 0; i < n && r.err == nil; i++ {
		d.m.elems[i] = uint32(r.pos)
		d.scratch = d.c.element(r, d.scratch[:0], false)
	}
	r.end()
}

func (d *decoder) code(r *Reader) {
	at := r.pos
	d.m.code = uint32(at)
	n := r.Count(3, d.c.limits.Functions, "function bodies")
	if n != len(d.m.Funcs) {
		r.malformed(at, "%d bodies for %d functions", n, len(d.m.Funcs))
		return
	}
	d.m.bodies = make([]uint32, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		size := r.U32()
		if size > d.c.limits.FunctionBytes {
			r.fail(at, ErrLimit, "function %d has %d bytes, at most %d are allowed", i, size, d.c.limits.FunctionBytes)
		}
		d.m.bodies[i] = uint32(at)
		r.Bytes(size, "function body")
	}
	r.end()
}

// bodiesMatch finds functions without any body, where there is no code section.
func (d *decoder) bodiesMatch() error {
	if len(d.m.bodies) == len(d.m.Funcs) {
		return nil
	}
	end := len(d.m.bytes)
	r := newReader(d.m.bytes, end, end, sectionNames[secCode])
	r.malformed(end, "%d bodies for %d functions", len(d.m.bodies), len(d.m.Funcs))
	return r.Err()
}

func (d *decoder) data(r *Reader) {
	n := r.Count(2, d.c.limits.DataSegments, "data segments")
	d.m.datas = make([]uint32, n)
	d.c.datas = uint32(n)
	for i := 0; i < n && r.err == nil; i++ {
		d.m.datas[i] = uint32(r.pos)
		var s Segment
		s, d.scratch = d.c.segment(r, d.scratch[:0])
		d.c.dataBytes += len(s.Init)
	}
	r.end()
}

func (d *decoder) dataCount(r *Reader) {
	at := r.pos
	d.m.HasDataCount = true
	if n := r.U32(); n != d.c.datas {
		r.malformed(at, "%d data segments announced, there are %d", n, d.c.datas)
	}
	r.end()
}
