package wasmbin

// work counts what the cost of compiling a function depends on.
type work struct {
	ops    uint64
	blocks uint64 // basic blocks that the compiler makes, roughly
	edges  uint64 // branches, among which it looks for the values of locals
	gets   uint64 // of locals
	values uint64 // parameters and results of blocks
	checks uint64 // instructions that may trap
}

func (k *work) add(w *Walker) {
	k.ops++
	if w.Op.Checks() {
		k.checks++
	}
	switch op := w.Op; {
	case op == OpLocalGet:
		k.gets++
	case op == OpIf:
		k.blocks += 3
		k.edges += 2
	case op == OpLoop:
		k.blocks += 5
		k.edges++
	case op.Opens():
		k.blocks++
	case op.Bulk():
		k.blocks += 7
	case op.Leaves() && !op.Calls():
		k.blocks++
	}
	k.edges += uint64(len(w.Labels))
	k.blocks += uint64(len(w.Labels))
}

func (k *work) signature(types []FuncType, i int64) {
	if uint64(i) < uint64(len(types)) {
		k.values += uint64(len(types[i].Params) + len(types[i].Results))
	}
}

// Work returns the estimated cost of compiling what has been read of the
// function, in the units of [Limits].CompileWork: nanoseconds, roughly, of a core
// of 2 to 3 GHz.
//
// The engine looks at most pairs of blocks of a function, and for each local that
// is read it can follow each branch back along all others, so that 20 KB of br_if
// and local.get keep it busy for a minute. For what compilers emit the estimate is
// two to three times too high; for the worst shapes that we know it is at most
// three times too low.
func (w *Walker) Work() uint64 {
	k := &w.work
	locals := min(k.gets, uint64(w.locals))
	linear := 2000 + k.ops*400 + k.checks*3000 + k.values*500
	return linear + k.blocks*k.blocks*2 + k.edges*k.edges*locals*4
}

// second is how many units a second of compilation is.
const second = 1_000_000_000

// Budget is what compiling a module may still cost.
type Budget struct {
	limit uint64
	spent uint64
}

// CompileBudget returns the budget of a whole module.
func (m *Module) CompileBudget() *Budget { return &Budget{limit: m.ctx.limits.CompileWork} }

// Spend takes the function that w has read from the budget.
func (b *Budget) Spend(w *Walker) error {
	if b.spent += w.Work(); b.spent > b.limit {
		w.r.fail(w.r.pos, ErrLimit, "compiling it up to here would take some %d s, at most %d are allowed", b.spent/second, b.limit/second)
	}
	return w.Err()
}
