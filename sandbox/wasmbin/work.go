package wasmbin

// Work is the estimated cost of compiling: the processor time, roughly, on a core of 2 to
// 3 GHz, and the memory.
type Work struct {
	Nanos uint64
	Bytes uint64 // at once
	Code  uint64 // of them, what is left when the function is done
}

// MaxCompileBytes returns what compiling a module of so many bytes may take of memory, at
// least base: measured, a Go program of 14 MB takes 17 bytes for each of its own.
func MaxCompileBytes(base uint64, size int) uint64 { return max(base, 24*uint64(size)) }

// work counts what the cost of compiling a function depends on.
type work struct {
	ops     uint64
	blocks  uint64 // basic blocks that the compiler makes, roughly
	edges   uint64 // branches, among which it looks for the values of locals
	gets    uint64 // of locals
	args    uint64 // parameters and results of calls
	passed  uint64 // parameters and results of blocks, and what branches take along
	squares uint64 // of how many each of them has: all are looked at for each
	checks  uint64 // instructions that may trap
	slow    uint64 // those of them that divide or convert
	calls   uint64 // through a table or a reference
	vectors uint64 // vector instructions
	bulk    uint64 // instructions that become loops and calls
	loops   uint64
	depth   uint64 // of loops within loops, at the deepest
	spans   uint64 // places at which the values that live are listed
	held    uint64 // the height of the operand stack, summed over them

	height int  // of the operand stack
	dead   bool // after a jump, where the compiler makes nothing
	frames []frame
}

// frame is an open block.
type frame struct {
	base            int // the height of the stack below its parameters
	params, results int
	depth           uint64 // of loops
	loop, dead      bool   // dead: before it
}

// arity is how many values a branch to it takes along.
func (f frame) arity() int {
	if f.loop {
		return f.params
	}
	return f.results
}

func (k *work) reset(t *FuncType) {
	*k = work{frames: append(k.frames[:0], frame{results: len(t.Results)})}
}

// add counts one instruction, which has been read.
func (k *work) add(w *Walker) {
	k.ops++
	if k.dead {
		k.skip(w)
		return
	}
	k.kind(w.Op)
	k.branches(w.Labels)
	k.newBlocks(blocksOf(w.Op))
	switch op := w.Op; {
	case op == OpElse, op == OpEnd:
		k.close(op)
	case op.Opens():
		k.open(w)
	case op.Calls():
		k.args += uint64(len(w.sig.Params) + len(w.sig.Results))
		k.calls += uint64(operands(op))
		k.take(len(w.sig.Params)+operands(op), len(w.sig.Results))
	default:
		k.take(stackEffect(op))
	}
	if w.Op == OpReturn {
		k.passed += uint64(k.frames[0].results)
	}
	k.dead = k.dead || jumps(w.Op)
}

// kind counts what is dear about the instruction itself.
func (k *work) kind(op Op) {
	if op.Checks() {
		k.checks++
	}
	switch {
	case op == OpLocalGet:
		k.gets++
	case op.Bulk():
		k.bulk++
	case op == OpTableGet, op == OpTableSet:
		k.calls++
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82, op >= 0xa8 && op <= 0xb1, op >= 0xfc00 && op <= 0xfc07, op >= 0xfdf8 && op < 0xfe00:
		k.slow++
	}
	if op>>8 == 0xfd {
		k.vectors++
	}
}

// newBlocks counts basic blocks that begin now, and places where live values are listed.
func (k *work) newBlocks(blocks, spans uint64) {
	k.blocks += blocks
	k.spans += spans
	k.held += spans * uint64(k.height)
}

// blocksOf is how many of both an instruction makes by itself, with what the meter adds to
// it.
func blocksOf(op Op) (blocks, spans uint64) {
	switch {
	case op == OpIf:
		return 3, 4
	case op == OpLoop:
		return 5, 20
	case op == OpTryTable:
		return 4, 10
	case op.Opens():
		return 1, 2
	case op.Bulk():
		return 7, 20
	case op.Leaves() && !op.Calls():
		return 1, 1
	}
	return 0, 0
}

func (k *work) branches(labels []uint32) {
	k.edges += uint64(len(labels))
	k.newBlocks(uint64(len(labels)), uint64(len(labels)))
	for _, l := range labels {
		if i := len(k.frames) - 1 - int(l); i >= 0 {
			k.pass(k.frames[i].arity())
		}
	}
}

// pass counts values that a block is given, or gives.
func (k *work) pass(values int) {
	k.passed += uint64(values)
	k.squares += uint64(values * values)
}

// take moves the operand stack. The module may be invalid: no block takes what is below.
func (k *work) take(pop, push int) {
	k.height = max(k.height-pop, k.frames[len(k.frames)-1].base) + push
}

func (k *work) open(w *Walker) {
	f := frame{params: len(w.sig.Params), results: len(w.sig.Results), loop: w.Op == OpLoop, depth: k.frames[len(k.frames)-1].depth}
	k.pass(f.params)
	k.pass(f.results)
	switch w.Op {
	case OpIf:
		k.take(1, 0)
		k.edges++
	case OpLoop:
		k.loops++
		k.edges++
		f.depth++
		k.depth = max(k.depth, f.depth)
	}
	f.base = max(k.height-f.params, k.frames[len(k.frames)-1].base)
	k.frames = append(k.frames, f)
}

// close ends a block, or the first half of an if.
func (k *work) close(op Op) {
	last := len(k.frames) - 1
	f := k.frames[last]
	if op == OpElse {
		k.height, k.dead = f.base+f.params, f.dead
		return
	}
	k.height, k.dead = f.base+f.results, f.dead
	if last > 0 { // the function's own is kept, for a body that goes on after its end
		k.frames = k.frames[:last]
	}
}

// skip follows the blocks of what nothing reaches.
func (k *work) skip(w *Walker) {
	switch {
	case w.Op.Opens():
		k.frames = append(k.frames, frame{base: k.height, dead: true})
	case w.Op == OpElse, w.Op == OpEnd:
		k.close(w.Op)
	}
}

// jumps reports whether nothing reaches what follows the instruction in its block.
func jumps(op Op) bool {
	switch op {
	case OpUnreachable, OpThrow, OpThrowRef, OpBr, OpBrTable, OpReturn, OpReturnCall, OpReturnCallIndirect, OpReturnCalls:
		return true
	}
	return false
}

// Work returns the estimated cost of compiling what has been read of the function.
//
// Beside what grows with the code, the engine looks at most pairs of blocks of a function;
// for each local that is read it can follow each branch back along all others, so that
// 20 KB of br_if and local.get keep it busy for a minute; and for each block it lists the
// values that live across it, so that 50 KB of loads and ifs fill a gigabyte. In nested loops,
// it goes through what each block is given once for each loop that is around another. A call
// is 128 moves each way when its type says so. The numbers are fitted to what a campaign over
// shapes of all these kinds has measured, as upper bounds, while of what compilers emit the
// estimate is two to three times too high.
func (w *Walker) Work() Work {
	k := &w.work
	locals := min(k.gets, uint64(w.locals))
	live := k.held + k.spans*locals
	return Work{
		Nanos: 2_000 + k.ops*500 + k.checks*3_000 + k.slow*10_000 + k.calls*25_000 + k.vectors*4_000 + k.args*1_200 + k.passed*400 +
			k.bulk*20_000 + k.blocks*k.blocks*2 + live*80 +
			k.edges*k.edges*locals*4 + k.depth*k.loops*locals*250 + k.depth*k.squares/2,
		Bytes: k.ops*800 + k.checks*2_000 + k.slow*6_000 + k.calls*12_000 + k.vectors*2_500 + k.args*500 + k.passed*120 +
			k.bulk*30_000 + k.blocks*2_500 + k.loops*30_000 + live*20 + k.edges*locals*150,
		Code: k.ops*12 + k.checks*20 + k.slow*200 + k.calls*400 + k.vectors*50 + k.args*24 + k.passed*16 + k.bulk*2_000 + k.blocks*60,
	}
}

// second is how many units a second of compilation is.
const second = 1_000_000_000

// Budget is what compiling a module may still cost.
type Budget struct {
	nanos, bytes uint64 // the limits
	spent        Work
	largest      uint64 // function, since the compiler has one at a time
}

// CompileBudget returns the budget of a whole module.
func (m *Module) CompileBudget() *Budget {
	l := m.ctx.limits
	return &Budget{nanos: l.CompileWork, bytes: MaxCompileBytes(l.CompileBytes, len(m.bytes))}
}

// Spend takes the function that w has read from the budget.
func (b *Budget) Spend(w *Walker) error {
	cost := w.Work()
	b.largest = max(b.largest, cost.Bytes)
	b.spent.Nanos += cost.Nanos
	b.spent.Code += cost.Code
	b.spent.Bytes = b.spent.Code + b.largest
	switch {
	case b.spent.Nanos > b.nanos:
		w.r.fail(w.r.pos, ErrLimit, "compiling it up to here would take some %d s, at most %d are allowed", b.spent.Nanos/second, b.nanos/second)
	case b.spent.Bytes > b.bytes:
		w.r.fail(w.r.pos, ErrLimit, "compiling it up to here would take some %d MB of memory, at most %d are allowed", b.spent.Bytes>>20, b.bytes>>20)
	}
	return w.Err()
}

// Spent returns the cost of what was taken from the budget.
func (b *Budget) Spent() Work { return b.spent }

// operands is what a call takes beside its parameters.
func operands(op Op) int {
	switch op {
	case OpCallIndirect, OpReturnCallIndirect, OpCallRef, OpReturnCalls:
		return 1
	}
	return 0
}
