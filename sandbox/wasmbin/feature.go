package wasmbin

// Features is a set of proposals beyond WebAssembly 2.0, which is always on.
type Features uint8

// The proposals that can be switched on.
const (
	TailCall Features = 1 << iota
	ExtendedConst
	ExceptionHandling
	TypedFunctionReferences
	Threads
)

// Pinned is what guests of this node may use: WebAssembly 2.0 (which has SIMD,
// bulk memory, reference types and multiple values) and what current compilers
// emit beyond it.
//
// Threads are not in it: a guest's memory.atomic.wait would block in the engine,
// where neither fuel nor a context reaches. Typed function references are not,
// since no compiler for our guests emits them and the engine takes a null for a
// reference that cannot be null in places.
const Pinned = TailCall | ExtendedConst | ExceptionHandling

// The names under which proposals are refused.
const (
	nameTailCall   = "the tail-call proposal"
	nameExtended   = "the extended-const proposal"
	nameExceptions = "the exception-handling proposal"
	nameLegacyEH   = "the legacy exception-handling proposal (compile with -mllvm -wasm-use-legacy-eh=false for try_table)"
	nameTypedRefs  = "the typed-function-references proposal"
	nameThreads    = "the threads proposal (shared memory and atomics)"
	nameGC         = "the garbage-collection proposal"
	nameMultiMem   = "the multi-memory proposal"
	nameMemory64   = "the memory64 proposal"
	namePageSize   = "the custom-page-sizes proposal"
	nameRelaxed    = "the relaxed-simd proposal"
	nameWide       = "the wide-arithmetic proposal"
	nameStack      = "the stack-switching proposal"
	nameTableInit  = "a table with an initial value"
)

// need refuses the module unless f is switched on.
func (c *context) need(r *Reader, at int, f Features, name string) {
	if c.limits.Features&f == 0 {
		r.unsupported(at, name)
	}
}
