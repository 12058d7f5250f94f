package wasmbin

import "slices"

// Walker reads one function body, instruction by instruction, and gives each in
// its canonical form. It keeps no more of the body than one instruction, so that
// a walk costs no memory; a caller that needs two passes walks twice.
//
//	w := m.Walk(i)
//	for w.Next() {
//		use(w.Op, w.Bytes())
//	}
//	err := w.Err()
type Walker struct {
	Op    Op     // the present instruction
	Index uint32 // its function, global, local or type, as it was in the module
	Depth int    // open blocks before the instruction, 0 directly in the function

	// Labels are where the present instruction may branch to: 0 is the innermost
	// block that is open before it. Valid until the next call of Next.
	Labels []uint32

	c      *context
	r      Reader
	from   int // where the body begins
	at     int // where the present instruction does
	m      *Module
	one    [1]ValType
	sig    FuncType // of the present instruction's block or callee
	out    []byte
	decls  []byte
	ndecls uint32
	locals uint32
	done   bool
	work   work
}

// Walk starts reading the body of the i-th function that has one.
func (m *Module) Walk(i int) *Walker {
	w := &Walker{c: &m.ctx}
	w.Reset(m, i)
	return w
}

// Reset starts over with another function of m, keeping the buffers.
func (w *Walker) Reset(m *Module, i int) { w.reset(m, &m.ctx, i) }

func (w *Walker) reset(m *Module, c *context, i int) {
	head := newReader(m.bytes, int(m.bodies[i]), len(m.bytes), "function")
	size := head.U32()
	r := newReader(m.bytes, head.pos, head.pos+int(size), "function")
	r.item = i + int(m.ctx.importedFuncs)
	t := &m.Types[m.Funcs[i]]
	*w = Walker{c: c, r: r, from: r.pos, m: m, out: w.out[:0], decls: w.decls[:0], Labels: w.Labels[:0], work: w.work}
	w.work.reset(t)
	w.declarations(len(t.Params))
}

func (w *Walker) declarations(params int) {
	r := &w.r
	w.ndecls = uint32(r.Count(2, ^uint32(0), "local declarations"))
	total := uint64(params)
	for i := uint32(0); i < w.ndecls && r.err == nil; i++ {
		at := r.pos
		n := r.U32()
		if total += uint64(n); total > uint64(w.c.limits.Locals) {
			r.fail(at, ErrLimit, "%d locals, at most %d are allowed", total, w.c.limits.Locals)
		}
		w.decls = w.c.valType(r).append(AppendUnsigned(w.decls, n))
	}
	w.locals = uint32(total)
}

// Err returns the first failure, or nil when all was read.
func (w *Walker) Err() error { return w.r.Err() }

// Bytes returns the present instruction in canonical form, until the next call.
func (w *Walker) Bytes() []byte { return w.out }

// Locals returns how many locals the function has, with its parameters.
func (w *Walker) Locals() uint32 { return w.locals }

// Size returns the size of what has been read of the body, in bytes.
func (w *Walker) Size() int { return w.r.pos - w.from }

// CodeOffset returns where the present instruction is, from the content of the module's code section
// on: what debug information calls its address.
func (w *Walker) CodeOffset() uint32 { return uint32(w.at) - w.m.code }

// Declarations returns the canonical declarations of the locals and their number.
func (w *Walker) Declarations() (n uint32, decls []byte) { return w.ndecls, w.decls }

// Next reads the next instruction. It returns false at the function's end, whose
// own end instruction it has given, and after a failure.
func (w *Walker) Next() bool {
	r := &w.r
	if w.done || r.err != nil {
		return false
	}
	if w.Op.Opens() {
		w.Depth++
	}
	at := r.pos
	w.at = at
	b := r.Byte()
	w.Op = Op(b)
	w.out, w.Labels, w.sig = append(w.out[:0], b), w.Labels[:0], FuncType{}
	w.immediates(at, b)
	if r.err != nil {
		return false
	}
	w.work.add(w)
	if w.Op == OpEnd {
		if w.Depth == 0 {
			w.done = true
			r.end()
			return r.err == nil
		}
		w.Depth--
	}
	return true
}

func (w *Walker) immediates(at int, b byte) {
	r, c := &w.r, w.c
	switch forms[b] {
	case formPlain, formEnd:
	case formLocal:
		w.Index = c.index(r, w.locals, "local")
		w.u32(w.Index)
	case formS32:
		w.out = AppendSigned(w.out, r.S32())
	case formMemArg:
		w.memArg()
	case formS64:
		w.out = AppendSigned(w.out, r.S64())
	case formGlobal:
		w.Index = c.index(r, c.globals, "global")
		w.u32(w.Index)
	case formFunc:
		w.function()
	case formLabel:
		w.label()
	case formBlock:
		w.block(at)
	case formLabels:
		w.labels()
	case formIndirect:
		w.indirect()
	case formBytes4:
		w.raw(4)
	case formBytes8:
		w.raw(8)
	case formMemory:
		w.memory()
	case formTable:
		w.u32(c.index(r, c.tables, "table"))
	case formSelect:
		w.selectTypes()
	case formHeapType:
		w.out = AppendSigned(w.out, c.heapType(r))
	case formMisc:
		w.misc(at)
	case formVector:
		w.vector(at)
	case formAtomic:
		w.atomic(at)
	default:
		w.proposals(at, b)
	}
}

// proposals reads the instructions that need a feature, or refuses them.
func (w *Walker) proposals(at int, b byte) {
	r, c := &w.r, w.c
	switch forms[b] {
	case formTailCall:
		c.need(r, at, TailCall, nameTailCall)
		w.function()
	case formTailIndirect:
		c.need(r, at, TailCall, nameTailCall)
		w.indirect()
	case formType:
		c.need(r, at, TypedFunctionReferences, nameTypedRefs)
		w.typeIndex()
	case formTypedPlain:
		c.need(r, at, TypedFunctionReferences, nameTypedRefs)
	case formTypedLabel:
		c.need(r, at, TypedFunctionReferences, nameTypedRefs)
		w.label()
	case formTag:
		c.need(r, at, ExceptionHandling, nameExceptions)
		w.u32(c.index(r, c.tags, "tag"))
	case formThrowRef:
		c.need(r, at, ExceptionHandling, nameExceptions)
	case formTryTable:
		c.need(r, at, ExceptionHandling, nameExceptions)
		w.tryTable(at)
	case formLegacyEH:
		r.unsupported(at, nameLegacyEH)
	case formGC:
		r.unsupported(at, nameGC)
	case formStack:
		r.unsupported(at, nameStack)
	default:
		r.malformed(at, "instruction 0x%x is unknown", b)
	}
}

func (w *Walker) u32(v uint32) { w.out = AppendUnsigned(w.out, v) }

func (w *Walker) raw(n uint32) { w.out = append(w.out, w.r.Bytes(n, "constant")...) }

func (w *Walker) zero(what string) {
	at := w.r.pos
	if b := w.r.Byte(); b != 0 && w.r.err == nil {
		w.r.unsupported(at, nameMultiMem)
	}
	if w.c.mems == 0 {
		w.r.malformed(at, "%s without a memory", what)
	}
	w.out = append(w.out, 0)
}

func (w *Walker) memory() { w.zero("memory instruction") }

func (w *Walker) function() {
	w.Index = w.c.index(&w.r, w.c.funcs, "function")
	w.u32(w.c.moved(w.Index))
	if t := w.m.FuncType(w.Index); t != nil {
		w.sig = *t
	}
}

func (w *Walker) typeIndex() {
	w.Index = w.c.index(&w.r, w.c.types, "type")
	w.u32(w.Index)
	if uint64(w.Index) < uint64(len(w.m.Types)) {
		w.sig = w.m.Types[w.Index]
	}
}

func (w *Walker) indirect() {
	w.typeIndex()
	w.u32(w.c.index(&w.r, w.c.tables, "table"))
}

func (w *Walker) label() {
	l := w.c.index(&w.r, uint32(w.Depth)+1, "label")
	w.Labels = append(w.Labels, l)
	w.u32(l)
}

func (w *Walker) labels() {
	n := w.r.Count(1, w.c.limits.Targets, "branch targets")
	w.u32(uint32(n))
	w.Labels = slices.Grow(w.Labels, n+1)
	for i := 0; i <= n && w.r.err == nil; i++ {
		w.label()
	}
}

func (w *Walker) open(at int) {
	if uint32(w.Depth) >= w.c.limits.Nesting {
		w.r.fail(at, ErrLimit, "blocks are nested more than %d deep", w.c.limits.Nesting)
	}
}

func (w *Walker) block(at int) {
	w.open(at)
	w.blockType()
}

// blockType reads nothing, one value type, or the index of a function type.
func (w *Walker) blockType() {
	r := &w.r
	if !r.more() || r.b[r.pos]&0xc0 != 0x40 {
		at := r.pos
		i := r.S33()
		if r.err == nil && (i < 0 || i >= int64(w.c.types)) {
			r.malformed(at, "block type %d of %d", i, w.c.types)
		}
		w.out = AppendSigned(w.out, i)
		if i >= 0 && i < int64(len(w.m.Types)) {
			w.sig = w.m.Types[i]
		}
		return
	}
	if r.b[r.pos] == 0x40 {
		r.pos++
		w.out = append(w.out, 0x40)
		return
	}
	t := w.c.valType(r)
	w.out = t.append(w.out)
	w.sig.Results = append(w.one[:0], t)
}

func (w *Walker) tryTable(at int) {
	r := &w.r
	w.block(at)
	n := r.Count(2, w.c.limits.Targets, "catch clauses")
	w.u32(uint32(n))
	for i := 0; i < n && r.err == nil; i++ {
		at := r.pos
		kind := r.Byte()
		w.out = append(w.out, kind)
		switch kind {
		case 0, 1:
			w.u32(w.c.index(r, w.c.tags, "tag"))
		case 2, 3:
		default:
			r.malformed(at, "kind 0x%x of a catch clause", kind)
		}
		w.label()
	}
}

func (w *Walker) selectTypes() {
	n := w.r.Count(1, w.c.limits.Params, "types of a select")
	w.u32(uint32(n))
	for i := 0; i < n && w.r.err == nil; i++ {
		w.out = w.c.valType(&w.r).append(w.out)
	}
}

func (w *Walker) memArg() {
	r := &w.r
	at := r.pos
	align := r.U32()
	switch {
	case align < 32:
	case align < 128:
		r.unsupported(at, nameMultiMem)
	default:
		r.malformed(at, "alignment 2^%d", align)
	}
	if w.c.mems == 0 {
		r.malformed(at, "memory instruction without a memory")
	}
	w.u32(align)
	w.u32(r.U32())
}

func (w *Walker) sub(prefix byte) uint32 {
	sub := w.r.U32()
	w.u32(sub)
	w.Op = Op(prefix)<<8 | Op(sub&0xff)
	return sub
}

// misc reads what follows the prefix 0xfc.
func (w *Walker) misc(at int) {
	r, c := &w.r, w.c
	switch sub := w.sub(0xfc); {
	case sub <= 7:
	case sub == 8:
		w.u32(c.index(r, c.datas, "data segment"))
		w.memory()
	case sub == 9:
		w.u32(c.index(r, c.datas, "data segment"))
	case sub == 10:
		w.memory()
		w.memory()
	case sub == 11:
		w.memory()
	case sub == 12:
		w.u32(c.index(r, c.elems, "element segment"))
		w.u32(c.index(r, c.tables, "table"))
	case sub == 13:
		w.u32(c.index(r, c.elems, "element segment"))
	case sub == 14:
		w.u32(c.index(r, c.tables, "table"))
		w.u32(c.index(r, c.tables, "table"))
	case sub <= 17:
		w.u32(c.index(r, c.tables, "table"))
	case sub >= 19 && sub <= 22:
		r.unsupported(at, nameWide)
	default:
		r.malformed(at, "instruction 0xfc %d is unknown", sub)
	}
}

// vector reads what follows the prefix 0xfd.
func (w *Walker) vector(at int) {
	r := &w.r
	switch sub := w.sub(0xfd); {
	case sub <= 11, sub == 92, sub == 93:
		w.memArg()
	case sub == 12, sub == 13:
		w.raw(16)
	case sub >= 21 && sub <= 34:
		w.raw(1)
	case sub >= 84 && sub <= 91:
		w.memArg()
		w.raw(1)
	case sub <= 0xff:
	case sub <= 0x11f:
		r.unsupported(at, nameRelaxed)
	default:
		r.malformed(at, "instruction 0xfd %d is unknown", sub)
	}
}

// atomic reads what follows the prefix 0xfe.
func (w *Walker) atomic(at int) {
	w.c.need(&w.r, at, Threads, nameThreads)
	switch sub := w.sub(0xfe); {
	case sub == 3:
		w.out = append(w.out, 0)
		if w.r.Byte() != 0 {
			w.r.malformed(at, "atomic.fence with a flag")
		}
	case sub <= 2, sub >= 0x10 && sub <= 0x4e:
		w.memArg()
	default:
		w.r.malformed(at, "instruction 0xfe %d is unknown", sub)
	}
}
