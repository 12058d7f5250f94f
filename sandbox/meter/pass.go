package meter

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

// addedLocals is how many locals a function gets that needs one: [pass] names them.
const addedLocals = 2

// pass rewrites the functions of one module.
type pass struct {
	edit  *wasmbin.Editor
	yield uint32 // the import's index
	fuel  uint32 // the counter's

	pieces *pieces // nil until needed

	origins []origin // of the function under way; nil: they are not wanted

	namesSegments bool // an instruction names a data segment
	changesTables bool // one changes a table

	walker wasmbin.Walker
	points points
	code   code
	// The added locals, in functions that need one: what a bulk instruction's length is kept in, and how many
	// iterations of the tight loop under way are paid for.
	tmp, left uint32
}

func newPass(m *wasmbin.Module) *pass {
	p := &pass{edit: m.Edit()}
	typ := p.edit.AddType(wasmbin.FuncType{Results: []wasmbin.ValType{wasmbin.I32}})
	p.yield = p.edit.ImportFunc(ImportModule, ImportFunc, typ)
	p.fuel = p.edit.AddGlobal(wasmbin.Global{Type: wasmbin.I32, Mutable: true}, []byte{byte(wasmbin.OpI32Const), 0, byte(wasmbin.OpEnd)})
	return p
}

// function rewrites the i-th function that has a body.
func (p *pass) function(i int) error {
	w := &p.walker
	p.edit.Reset(w, i)
	if err := p.points.read(w); err != nil {
		return err
	}
	p.edit.Reset(w, i)
	p.declarations(w)
	if p.points.entry > 0 {
		p.charge(p.points.entry)
	}
	loop := 0
	for w.Next() {
		if p.origins != nil {
			p.origins = append(p.origins, origin{uint32(len(p.code.b)), w.CodeOffset()})
		}
		switch op := w.Op; {
		case op == wasmbin.OpLoop:
			p.loop(p.points.loops[loop], w.Bytes())
			loop++
		case op == wasmbin.OpThrow, op == wasmbin.OpThrowRef:
			p.charge(throwUnits)
			p.code.raw(w.Bytes())
		case op.Bulk():
			p.bulk(op, w.Bytes())
		default:
			p.code.raw(w.Bytes())
		}
		p.note(w.Op)
	}
	p.edit.SetBody(i, append([]byte(nil), p.code.b...))
	return w.Err()
}

// note remembers what an instruction does to the module's state.
func (p *pass) note(op wasmbin.Op) {
	switch op {
	case wasmbin.OpMemoryInit, wasmbin.OpDataDrop:
		p.namesSegments = true
	case wasmbin.OpTableSet, wasmbin.OpTableInit, wasmbin.OpTableCopy, wasmbin.OpTableGrow, wasmbin.OpTableFill:
		p.changesTables = true
	}
}

// loop writes the head of a loop.
func (p *pass) loop(l loop, head []byte) {
	c := &p.code
	if l.every > 0 {
		c.i32(l.every)
		c.index(wasmbin.OpLocalSet, p.left)
	}
	c.raw(head)
	if l.charge == 0 {
		return
	}
	if l.every == 0 {
		p.charge(l.charge)
		return
	}
	c.op(wasmbin.OpBlock, blockEmpty)
	c.locals(p.left)
	c.i32(1)
	c.op(wasmbin.OpI32Sub)
	c.index(wasmbin.OpLocalTee, p.left)
	c.index(wasmbin.OpBrIf, 0)
	p.charge(l.charge)
	c.i32(l.every)
	c.index(wasmbin.OpLocalSet, p.left)
	c.op(wasmbin.OpEnd)
}

func (p *pass) declarations(w *wasmbin.Walker) {
	n, decls := w.Declarations()
	p.tmp, p.left = w.Locals(), w.Locals()+1
	needed := p.points.bulk || p.points.tight
	if needed {
		n++
	}
	p.code.b = append(wasmbin.AppendUnsigned(p.code.b[:0], n), decls...)
	if needed {
		p.code.raw([]byte{addedLocals, byte(wasmbin.I32)})
	}
}

// charge takes n units and asks the host when none are left.
func (p *pass) charge(n int32) { p.chargeIn(&p.code, n) }

func (p *pass) chargeIn(c *code, n int32) {
	c.index(wasmbin.OpGlobalGet, p.fuel)
	c.i32(n)
	p.take(c)
}

// take takes as many units as the number on top of the stack, the counter lying
// below it, and asks the host when none are left. A charge is never negative, and
// far from 2^31, so that the counter cannot wrap.
//
// The engine gives values the registers that they have at the end of the first way
// into a block, so that the way past the call has to come first: measured, that
// halves what the meter costs.
func (p *pass) take(c *code) {
	c.op(wasmbin.OpI32Sub)
	c.index(wasmbin.OpGlobalSet, p.fuel)
	c.index(wasmbin.OpGlobalGet, p.fuel)
	c.i32(0)
	c.op(wasmbin.OpI32GeS, wasmbin.OpIf, blockEmpty, wasmbin.OpElse)
	c.index(wasmbin.OpCall, p.yield)
	c.index(wasmbin.OpGlobalSet, p.fuel)
	c.op(wasmbin.OpEnd)
}
