package wasmbin

// work counts what the cost of compiling a function depends on.
type work struct {
	ops    uint64
	blocks uint64
	depth  uint64
	edges  uint64
	values uint64 // parameters and results of blocks
}

func (k *work) add(w *Walker) {
	k.ops++
	if w.Op.Opens() {
		k.blocks++
		k.depth = max(k.depth, uint64(w.Depth)+1)
	}
}

func (k *work) targets(n int) { k.edges += uint64(n) }

func (k *work) signature(types []FuncType, i int64) {
	if uint64(i) < uint64(len(types)) {
		k.values += uint64(len(types[i].Params) + len(types[i].Results))
	}
}

// Work returns the estimated cost of compiling what has been read of the
// function, in the units of [Limits].CompileWork.
func (w *Walker) Work() uint64 {
	k := &w.work
	return k.ops + k.blocks*k.depth/64 + k.edges + k.values
}

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
		w.r.fail(w.r.pos, ErrLimit, "compiling the module up to here would cost %d units, at most %d are allowed", b.spent, b.limit)
	}
	return w.Err()
}
