package wasmbin

// context is what the parts of a module must agree with: how many of each kind
// there are. It decodes and writes at once, so that what is checked and what is
// written are the same by construction. Indices are always checked against the
// counts of the module as it was read.
type context struct {
	limits Limits

	types   uint32
	funcs   uint32
	tables  uint32
	mems    uint32
	tags    uint32
	globals uint32
	elems   uint32
	datas   uint32

	importedFuncs uint32
	addedImports  uint32 // functions that were added as imports: those with a body move up by it
	dataBytes     int
}

func (c *context) index(r *Reader, count uint32, what string) uint32 {
	at := r.pos
	i := r.U32()
	if i >= count && r.err == nil {
		r.malformed(at, "%s index %d of %d", what, i, count)
		return 0
	}
	return i
}

// funcIndex returns the index that the function has in what is written.
func (c *context) funcIndex(r *Reader) uint32 {
	return c.moved(c.index(r, c.funcs, "function"))
}

func (c *context) moved(i uint32) uint32 {
	if i >= c.importedFuncs {
		i += c.addedImports
	}
	return i
}

// Heap types without an index, as the signed numbers that they are.
const (
	heapFunc   = -0x10
	heapExtern = -0x11
	heapExn    = -0x17
)

func (c *context) heapType(r *Reader) int64 {
	at := r.pos
	h := r.S33()
	switch {
	case r.err != nil:
		return 0
	case h >= int64(c.types):
		r.malformed(at, "type index %d of %d", h, c.types)
		return 0
	case h >= 0:
		c.need(r, at, TypedFunctionReferences, nameTypedRefs)
	case h == heapExn:
		c.need(r, at, ExceptionHandling, nameExceptions)
	case h == heapFunc, h == heapExtern:
	case h < -0x0b && h > -0x20:
		r.unsupported(at, nameGC)
	default:
		r.malformed(at, "heap type %d", h)
	}
	return h
}

func (c *context) valType(r *Reader) ValType {
	at := r.pos
	b := r.Byte()
	if r.err != nil {
		return 0
	}
	switch t := ValType(b); t {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return t
	case ExnRef:
		c.need(r, at, ExceptionHandling, nameExceptions)
		return t
	case refNull, refOf:
		c.need(r, at, TypedFunctionReferences, nameTypedRefs)
		return t | ValType(c.heapType(r)+heapOffset)<<8
	}
	switch {
	case b >= 0x65 && b <= 0x74, b == 0x78, b == 0x77:
		r.unsupported(at, nameGC)
	default:
		r.malformed(at, "value type 0x%x", b)
	}
	return 0
}

func (c *context) refType(r *Reader) ValType {
	at := r.pos
	t := c.valType(r)
	if r.err == nil && (t.Numeric() || t == V128) {
		r.malformed(at, "%v is not a reference", t)
	}
	return t
}

func (c *context) rangeOf(r *Reader, memory bool) Range {
	at := r.pos
	flags := r.Byte()
	switch {
	case flags&^0x0f != 0:
		r.malformed(at, "limits flags 0x%x", flags)
	case flags&8 != 0:
		r.unsupported(at, namePageSize)
	case flags&4 != 0:
		r.unsupported(at, nameMemory64)
	case flags&2 != 0:
		c.need(r, at, Threads, nameThreads)
		if !memory {
			r.malformed(at, "shared table")
		}
	}
	l := Range{Min: r.U32(), HasMax: flags&1 != 0, Shared: flags&2 != 0}
	if l.HasMax {
		l.Max = r.U32()
	}
	return l
}

func (c *context) table(r *Reader) Table {
	at := r.pos
	if r.more() && r.b[r.pos] == 0x40 {
		r.pos++
		c.need(r, at, TypedFunctionReferences, nameTableInit)
		if r.Byte() != 0 {
			r.malformed(at, "form of a table")
		}
		t := Table{Elem: c.refType(r), Range: c.rangeOf(r, false)}
		from := r.pos
		c.constExpr(r, nil)
		t.init = span{from, r.pos}
		return t
	}
	return Table{Elem: c.refType(r), Range: c.rangeOf(r, false)}
}

func (c *context) global(r *Reader) Global {
	g := Global{Type: c.valType(r)}
	at := r.pos
	m := r.Byte()
	if m > 1 {
		r.malformed(at, "mutability 0x%x", m)
	}
	g.Mutable = m == 1
	return g
}

func (g Global) append(w []byte) []byte {
	w = g.Type.append(w)
	if g.Mutable {
		return append(w, 1)
	}
	return append(w, 0)
}

// constExpr copies a constant expression with its end to w.
func (c *context) constExpr(r *Reader, w []byte) []byte {
	for n := 0; r.err == nil; n++ {
		at := r.pos
		op := r.Byte()
		w = append(w, op)
		switch op {
		case 0x0b:
			return w
		case 0x41:
			w = AppendSigned(w, r.S32())
		case 0x42:
			w = AppendSigned(w, r.S64())
		case 0x43:
			w = append(w, r.Bytes(4, "constant")...)
		case 0x44:
			w = append(w, r.Bytes(8, "constant")...)
		case 0x23:
			w = AppendUnsigned(w, c.index(r, c.globals, "global"))
		case 0xd0:
			w = AppendSigned(w, c.heapType(r))
		case 0xd2:
			w = AppendUnsigned(w, c.funcIndex(r))
		case 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e:
			c.need(r, at, ExtendedConst, nameExtended)
		case 0xfd:
			if r.Byte() != 12 {
				r.malformed(at, "vector instruction in a constant expression")
			}
			w = append(append(w, 12), r.Bytes(16, "constant")...)
		case 0xfb:
			r.unsupported(at, nameGC)
		default:
			r.malformed(at, "instruction 0x%x in a constant expression", op)
		}
	}
	return w
}

// element copies an element segment to w, or only checks it when keep is false:
// a segment can be as long as the module.
func (c *context) element(r *Reader, w []byte, keep bool) []byte {
	at := r.pos
	f := r.U32()
	if f > 7 {
		r.malformed(at, "flags %d of an element segment", f)
	}
	w = AppendUnsigned(w, f)
	if f&1 == 0 {
		if f&2 != 0 {
			w = AppendUnsigned(w, c.index(r, c.tables, "table"))
		} else if c.tables == 0 {
			r.malformed(at, "element segment without a table")
		}
		w = c.constExpr(r, w)
	}
	if f&4 != 0 {
		if f&3 != 0 {
			w = c.refType(r).append(w)
		}
		n := r.Count(2, ^uint32(0), "elements")
		w = AppendUnsigned(w, n)
		for i := 0; i < n && r.err == nil; i++ {
			if !keep {
				w = w[:0]
			}
			w = c.constExpr(r, w)
		}
		return w
	}
	if f&3 != 0 {
		if k := r.Byte(); k != 0 {
			r.malformed(at, "kind 0x%x of an element segment", k)
		}
		w = append(w, 0)
	}
	n := r.Count(1, ^uint32(0), "elements")
	w = AppendUnsigned(w, n)
	for i := 0; i < n && r.err == nil; i++ {
		if !keep {
			w = w[:0]
		}
		w = AppendUnsigned(w, c.funcIndex(r))
	}
	return w
}
