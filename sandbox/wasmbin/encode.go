package wasmbin

// Encode writes the module.
func (e *Editor) Encode() ([]byte, error) {
	if err := e.copyBodies(); err != nil {
		return nil, err
	}
	if !e.replaced {
		e.segments = e.m.Segments()
	}
	w := make([]byte, 0, e.sizeHint())
	w = append(append(w, magic...), coreVersion...)
	w = e.typesSection(w)
	w = e.importSection(w)
	w = e.functionSection(w)
	w = e.tableSection(w)
	w = e.memorySection(w)
	w = e.tagSection(w)
	w = e.globalSection(w)
	w = e.exportSection(w)
	w = e.startSection(w)
	w = e.elementSection(w)
	w = e.dataCountSection(w)
	w = e.codeSection(w)
	w = e.dataSection(w)
	w = e.nameSection(w)
	for _, c := range e.customs {
		w = section(w, secCustom, append(appendBytes(nil, c.name), c.content...))
	}
	return w, nil
}

// copyBodies fills the bodies that were not replaced.
func (e *Editor) copyBodies() error {
	var w Walker
	for i, b := range e.bodies {
		if b != nil {
			continue
		}
		e.Reset(&w, i)
		body := append(AppendUnsigned(nil, w.ndecls), w.decls...)
		for w.Next() {
			body = append(body, w.Bytes()...)
		}
		if err := w.Err(); err != nil {
			return err
		}
		e.bodies[i] = body
	}
	return nil
}

func (e *Editor) sizeHint() int {
	n := 64 << 10
	for _, b := range e.bodies {
		n += len(b) + 5
	}
	for _, s := range e.segments {
		n += len(s.Init) + 12
	}
	return n
}

func section(w []byte, id byte, body []byte) []byte {
	return appendBytes(append(w, id), body)
}

// vector writes a section of n items, or none at all for none.
func vector(w []byte, id byte, n int, item func(w []byte, i int) []byte) []byte {
	if n == 0 {
		return w
	}
	b := AppendUnsigned(nil, n)
	for i := range n {
		b = item(b, i)
	}
	return section(w, id, b)
}

func (t FuncType) append(w []byte) []byte {
	w = append(w, 0x60)
	for _, ts := range [][]ValType{t.Params, t.Results} {
		w = AppendUnsigned(w, len(ts))
		for _, t := range ts {
			w = t.append(w)
		}
	}
	return w
}

func (e *Editor) typesSection(w []byte) []byte {
	old := e.m.Types
	return vector(w, secType, len(old)+len(e.types), func(w []byte, i int) []byte {
		if i < len(old) {
			return old[i].append(w)
		}
		return e.types[i-len(old)].append(w)
	})
}

func (p *Import) append(w []byte) []byte {
	w = appendBytes(appendBytes(w, p.Module), p.Name)
	w = append(w, byte(p.Kind))
	switch p.Kind {
	case KindFunc:
		return AppendUnsigned(w, p.index)
	case KindTable:
		return p.Table.append(w)
	case KindMemory:
		return p.Memory.append(w)
	case KindGlobal:
		return p.Global.append(w)
	default:
		return AppendUnsigned(append(w, 0), p.index)
	}
}

func (e *Editor) importSection(w []byte) []byte {
	n := len(e.m.Imports)
	if e.yield != nil {
		n++
	}
	return vector(w, secImport, n, func(w []byte, i int) []byte {
		if i < len(e.m.Imports) {
			return e.m.Imports[i].append(w)
		}
		p := Import{Module: e.yield.module, Name: e.yield.name, index: e.yield.typ}
		return p.append(w)
	})
}

func (e *Editor) functionSection(w []byte) []byte {
	old := e.m.Funcs
	return vector(w, secFunction, len(old)+len(e.funcs), func(w []byte, i int) []byte {
		if i < len(old) {
			return AppendUnsigned(w, old[i])
		}
		return AppendUnsigned(w, e.funcs[i-len(old)].typ)
	})
}

func (t *Table) append(w []byte) []byte { return t.Range.append(t.Elem.append(w)) }

func (e *Editor) tableSection(w []byte) []byte {
	return vector(w, secTable, len(e.m.Tables), func(w []byte, i int) []byte {
		t := e.m.Tables[i]
		if limit := max(t.Min, e.tableMax); e.capTables && (!t.HasMax || t.Max > limit) {
			t.HasMax, t.Max = true, limit
		}
		if t.init.to == 0 {
			return t.append(w)
		}
		w = t.append(append(w, 0x40, 0))
		return e.expr(w, t.init.from)
	})
}

// expr writes the constant expression at the given offset.
func (e *Editor) expr(w []byte, at int) []byte {
	r := newReader(e.m.bytes, at, len(e.m.bytes), "")
	return e.c.constExpr(&r, w)
}

func (e *Editor) memorySection(w []byte) []byte {
	if e.m.Memory == nil {
		return w
	}
	return section(w, secMemory, e.m.Memory.append([]byte{1}))
}

func (e *Editor) tagSection(w []byte) []byte {
	return vector(w, secTag, len(e.m.tags), func(w []byte, i int) []byte {
		return AppendUnsigned(append(w, 0), e.m.tags[i])
	})
}

func (e *Editor) globalSection(w []byte) []byte {
	old := e.m.Globals
	return vector(w, secGlobal, len(old)+len(e.global), func(w []byte, i int) []byte {
		if i < len(old) {
			return e.expr(old[i].append(w), old[i].init)
		}
		g := e.global[i-len(old)]
		return append(g.append(w), g.init...)
	})
}

func (e *Editor) exportSection(w []byte) []byte {
	old := e.m.Exports
	return vector(w, secExport, len(old)+len(e.export), func(w []byte, i int) []byte {
		if i >= len(old) {
			x := e.export[i-len(old)]
			return AppendUnsigned(append(appendBytes(w, x.Name), byte(x.Kind)), x.Index)
		}
		x := old[i]
		if x.Kind == KindFunc {
			x.Index = e.c.moved(x.Index)
		}
		return AppendUnsigned(append(appendBytes(w, x.Name), byte(x.Kind)), x.Index)
	})
}

func (e *Editor) startSection(w []byte) []byte {
	if e.m.Start < 0 {
		return w
	}
	return section(w, secStart, AppendUnsigned(nil, e.c.moved(uint32(e.m.Start))))
}

func (e *Editor) elementSection(w []byte) []byte {
	return vector(w, secElement, len(e.m.elems), func(w []byte, i int) []byte {
		r := newReader(e.m.bytes, int(e.m.elems[i]), len(e.m.bytes), "")
		return e.c.element(&r, w, true)
	})
}

func (e *Editor) dataCountSection(w []byte) []byte {
	if !e.m.HasDataCount {
		return w
	}
	return section(w, secDataCount, AppendUnsigned(nil, len(e.segments)))
}

func (e *Editor) codeSection(w []byte) []byte {
	n, size := len(e.bodies)+len(e.funcs), 5
	if n == 0 {
		return w
	}
	body := func(i int) []byte {
		if i < len(e.bodies) {
			return e.bodies[i]
		}
		return e.funcs[i-len(e.bodies)].body
	}
	for i := range n {
		size += len(body(i)) + 5
	}
	b := AppendUnsigned(make([]byte, 0, size), n)
	e.starts = make([]uint32, len(e.bodies))
	for i := range n {
		b = appendBytes(b, body(i))
		if i < len(e.bodies) {
			e.starts[i] = uint32(len(b) - len(body(i)))
		}
	}
	return section(w, secCode, b)
}

func (e *Editor) dataSection(w []byte) []byte {
	return vector(w, secData, len(e.segments), func(w []byte, i int) []byte {
		return e.segments[i].append(w)
	})
}
