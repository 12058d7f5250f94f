package meter

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

// opsShift is the binary logarithm of the instructions per unit of fuel: 32. Less costs
// more time in yields, and more lets leaves that are full of divisions or cache
// misses run for milliseconds between two charges (measured at 256: 36 ms, at 32:
// 0.3 ms, with a quantum of 10,000 units).
const opsShift = 5

// callOps is what a call counts beside itself, for what the engine does at it and
// for a callee that is too short to be charged.
const callOps = 8

// throwUnits is what throwing an exception costs, at the instruction itself: the
// engine takes some 90 microseconds for one.
const throwUnits = 4096

// prepaidOps is about how many instructions of a tight loop are charged together.
const prepaidOps = 256

// points is where the fuel is charged in one function, and how much.
type points struct {
	entry  int32  // 0 for no charge at the entry
	loops  []loop // in the order in which they begin
	tight  bool   // some of them are
	bulk   bool   // there are instructions charged by length
	stack  []region
	direct bool // still on the straight line from the entry
	early  bool // a loop begins on it, so that its charge is that of the entry
	ops    int
}

// loop is how a loop is charged: at each iteration, or, when it is tight, at every
// "every"-th one, the first ones having been charged before the loop. So little
// happens in a tight loop that the counter in memory would be most of it.
type loop struct {
	charge int32 // 0 for none
	every  int32 // 0 for each
}

// region is a part of a function that is charged at one place, or an open block
// within it.
type region struct {
	loop   int // its number, -1 for another block or the function itself
	ops    int
	calls  bool
	loops  bool // it holds a loop
	bulk   bool // it holds an instruction charged by length
	target bool // something branches to it
	first  bool // it is a loop on the straight line from the entry
}

// read finds the points of the function that w is at the start of.
func (p *points) read(w *wasmbin.Walker) error {
	*p = points{loops: p.loops[:0], stack: append(p.stack[:0], region{loop: -1}), direct: true}
	for w.Next() {
		p.ops++
		for _, l := range w.Labels {
			p.stack[len(p.stack)-1-int(l)].target = true
		}
		switch op := w.Op; {
		case op == wasmbin.OpEnd:
			p.close()
		case op == wasmbin.OpLoop:
			p.stack = append(p.stack, region{loop: len(p.loops), first: p.direct})
			p.loops = append(p.loops, loop{})
		case op.Opens():
			p.direct = p.direct && op == wasmbin.OpBlock
			p.top().ops++
			p.stack = append(p.stack, region{loop: -1})
		default:
			p.plain(op)
		}
	}
	return w.Err()
}

func (p *points) top() *region { return &p.stack[len(p.stack)-1] }

func (p *points) plain(op wasmbin.Op) {
	top := p.top()
	top.ops++
	switch {
	case op.Calls():
		top.ops += callOps
		top.calls = true
	case op.Bulk():
		p.bulk, top.bulk = true, true
	}
	if op.Leaves() || op.Bulk() {
		p.direct = false
	}
}

// close ends a block. What it holds is charged where the next outer loop, or the
// function, begins, unless it is a loop itself; one that nothing branches to is
// none.
func (p *points) close() {
	r := *p.top()
	p.stack = p.stack[:len(p.stack)-1]
	if len(p.stack) == 0 {
		p.closeFunction(r)
		return
	}
	up := p.top()
	up.calls = up.calls || r.calls
	up.bulk = up.bulk || r.bulk
	if r.loop < 0 || !r.target {
		up.loops = up.loops || r.loops
		up.ops += r.ops
		return
	}
	up.loops = true
	if every := prepaidOps / r.ops; every > 1 && !r.calls && !r.loops && !r.bulk {
		p.tight = true
		p.loops[r.loop] = loop{charge: weight(every * r.ops), every: int32(every)}
		up.ops += every * r.ops
		return
	}
	p.early = p.early || r.first
	p.loops[r.loop] = loop{charge: weight(r.ops)}
}

// closeFunction charges the entry of a function that calls another or is long.
// Without it a call tree of functions without loops would be free.
func (p *points) closeFunction(r region) {
	w := weight(r.ops)
	if p.early && w <= 1 {
		return
	}
	if r.calls || max(p.ops, r.ops) > 1<<opsShift {
		p.entry = w
	}
}

func weight(ops int) int32 { return int32(1 + ops>>opsShift) }
