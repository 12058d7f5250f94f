package host

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
)

// CapabilityUses is how often a plugin used a function of a capability, with one outcome.
type CapabilityUses struct {
	Module, Function string
	// Outcome is one of the Use constants.
	Outcome string
	Count   uint64
}

// What comes of the use of a capability.
const (
	UseDone      = "done"      // it was answered; that a stream has nothing at the moment is an answer
	UseDenied    = "denied"    // PERMISSION_DENIED: it was not granted, or the system refuses it
	UseExhausted = "exhausted" // RESOURCE_EXHAUSTED: a bound
	UseFailed    = "failed"    // any other error
	UseEnded     = "ended"     // the call was over meanwhile, or the guest has broken the contract
)

var outcomes = [...]string{UseDone, UseDenied, UseExhausted, UseFailed, UseEnded}

// The outcomes' places.
const (
	useDone = iota
	useDenied
	useExhausted
	useFailed
	useEnded
)

// useCounts counts the uses of one function, by outcome.
type useCounts [len(outcomes)]atomic.Uint64

// uses are the counts of all functions, by module and function. The maps do not change.
type uses map[string]map[string]*useCounts

// newUses has the functions of every capability, but how a guest is called: that is no use of
// anything.
func newUses() uses {
	u := uses{}
	for module, funcs := range capabilities {
		if module == abi.ModuleABI {
			continue
		}
		u[module] = map[string]*useCounts{}
		for name := range funcs {
			u[module][name] = new(useCounts)
		}
	}
	return u
}

// list are the uses that there were, sorted.
func (u uses) list() (list []CapabilityUses) {
	for _, module := range slices.Sorted(maps.Keys(u)) {
		for name, counts := range u[module] {
			for i := range counts {
				if n := counts[i].Load(); n > 0 {
					list = append(list, CapabilityUses{module, name, outcomes[i], n})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b CapabilityUses) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Outcome, b.Outcome))
	})
	return list
}

// counted are the functions of a host module, with their uses counted for the plugin that calls.
func counted(module string, funcs map[string]sandbox.HostFunc) map[string]sandbox.HostFunc {
	out := map[string]sandbox.HostFunc{}
	for name, f := range funcs {
		run, answers := f.Run, answersStatus(f)
		f.Run = func(ctx context.Context, m api.Module, stack []uint64) {
			outcome := useEnded
			counts := callOf(ctx).plugin.uses[module][name]
			defer func() { counts[outcome].Add(1) }() // also when the guest ends here
			run(ctx, m, stack)
			outcome = useDone
			if answers {
				outcome = outcomeOf(stack[0])
			}
			if outcome == useFailed && ctx.Err() != nil {
				outcome = useEnded // the guest gets no further
			}
		}
		out[name] = f
	}
	return out
}

// answersStatus reports whether a function answers a status, and can fail.
func answersStatus(f sandbox.HostFunc) bool { return slices.Equal(f.Results, []api.ValueType{i64}) }

// outcomeOf is what a status says of a use.
func outcomeOf(status uint64) int {
	code, length := abi.SplitStatus(status)
	switch {
	case code == 0, abi.Code(code) == abi.Unavailable && length == 0: // a stream that would wait
		return useDone
	case abi.Code(code) == abi.PermissionDenied:
		return useDenied
	case abi.Code(code) == abi.ResourceExhausted:
		return useExhausted
	}
	return useFailed
}
