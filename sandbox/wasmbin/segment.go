package wasmbin

// Segment is a data segment.
type Segment struct {
	Passive bool
	Offset  []byte // the constant expression of the place, of one that is not passive
	Init    []byte // shares the module's memory
}

// segment reads a data segment; its Offset is appended to w.
func (c *context) segment(r *Reader, w []byte) (Segment, []byte) {
	at := r.pos
	var s Segment
	switch f := r.U32(); f {
	case 1:
		s.Passive = true
	case 0, 2:
		if f == 2 && r.U32() != 0 {
			r.unsupported(at, nameMultiMem)
		}
		if c.mems == 0 {
			r.malformed(at, "data segment without a memory")
		}
		from := len(w)
		w = c.constExpr(r, w)
		s.Offset = w[from:]
	default:
		r.malformed(at, "flags %d of a data segment", f)
	}
	s.Init = r.Bytes(r.U32(), "data segment")
	return s, w
}

func (s Segment) append(w []byte) []byte {
	if s.Passive {
		w = append(w, 1)
	} else {
		w = append(append(w, 0), s.Offset...)
	}
	return appendBytes(w, s.Init)
}

// At returns where an active segment with a constant offset goes.
func (s Segment) At() (at uint32, ok bool) {
	if s.Passive {
		return 0, false
	}
	r := newReader(s.Offset, 0, len(s.Offset), "")
	if r.Byte() != 0x41 {
		return 0, false
	}
	at = uint32(r.S32())
	return at, r.Byte() == 0x0b && r.err == nil && !r.more()
}

// ActiveSegment returns the segment that puts init at the given address.
func ActiveSegment(at uint32, init []byte) Segment {
	return Segment{Offset: append(AppendSigned([]byte{0x41}, int64(int32(at))), 0x0b), Init: init}
}

// Segments returns the data segments, each as it is in the module.
func (m *Module) Segments() []Segment {
	out := make([]Segment, len(m.datas))
	c := m.ctx
	for i, at := range m.datas {
		r := newReader(m.bytes, int(at), len(m.bytes), "")
		out[i], _ = c.segment(&r, nil)
	}
	return out
}

// DataSegments returns how many data segments there are, and DataBytes how many
// bytes they have together.
func (m *Module) DataSegments() int { return len(m.datas) }

// DataBytes returns the size of all data segments together.
func (m *Module) DataBytes() int { return m.ctx.dataBytes }

// ElementSegments returns how many element segments there are.
func (m *Module) ElementSegments() int { return len(m.elems) }
