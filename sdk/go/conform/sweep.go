package conform

import (
	"fmt"
	"iter"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
)

// Fault is that one use of a capability in a call fails.
type Fault struct {
	Use int // which, counted from 1; 0: none
	Err *abi.Error
}

// Ways are how a use of a capability fails: so that it can be tried again, so that it cannot,
// and after it has taken its time.
var Ways = []*abi.Error{
	abi.NewRecoverableError(abi.Unavailable, "this use fails, to see what the plugin does then"),
	abi.NewError(abi.PermissionDenied, "this use is refused, to see what the plugin does then"),
	abi.NewRecoverableError(abi.DeadlineExceeded, "this use was too slow, to see what the plugin does then"),
}

// Faults are all those of a call that uses capabilities so often, the first use's first.
func Faults(uses int) iter.Seq[Fault] {
	return func(yield func(Fault) bool) {
		for use := 1; use <= uses; use++ {
			for _, err := range Ways {
				if !yield(Fault{use, err}) {
					return
				}
			}
		}
	}
}

// mostUses is how many uses of capabilities are failed, one in a call.
const mostUses = 16

// sweep fails the first, second and each further use of a capability, one in a call, in each
// way. Do makes the call, and returns how many uses there were, and what is wrong with the
// outcome.
func (r *run) sweep(name string, do func(fail Fault) (asked int, problem error)) {
	asked, _ := do(Fault{})
	if asked == 0 {
		r.idle = append(r.idle, name)
		return
	}
	name += "/capability-fails"
	for f := range Faults(min(asked, mostUses)) {
		if _, problem := do(f); problem != nil {
			r.done(name, fmt.Errorf("use %d of %d, %s: %w", f.Use, asked, abi.CodeName(f.Err.Code), problem))
			return
		}
	}
	r.add(OK, name, fmt.Sprintf("each of %d", min(asked, mostUses)))
}

// idles tells in one line of all sweeps that had nothing to fail.
func (r *run) idles() {
	if len(r.idle) > 0 {
		r.skip("capability-fails", "no use of one that can fail in "+strings.Join(r.idle, ", "))
	}
}
