package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/structs"
)

// unclaimedTime bounds the look at what is unclaimed, for an answer that must not wait.
const unclaimedTime = time.Second

// adoptionConditions tell what the control plane or the node had lost when the agent started, and what
// waits for a decision now.
func (a *agent) adoptionConditions() (all []structs.Condition) {
	if got := a.node.Adoption(); got != nil && (got.Why != "" || len(got.Adopted) > 0) {
		all = append(all, structs.Condition{Name: "adoption", Server: true, Text: got.String(), Remedy: "look whether all jobs are there: wasmnode job status; those that are not are run again"})
	}
	if a.node.Forgets() {
		all = append(all, structs.Condition{Name: "forgotten", Text: "what the node knew is lost: it goes on with what the control plane knows, and with what runs", Remedy: "look whether all is well that runs: wasmnode node status -self"})
	}
	if text := a.unclaimedText(); text != "" {
		all = append(all, structs.Condition{Name: "unclaimed", Text: text, Remedy: "wasmnode operator adopt, or wasmnode operator discard"})
	}
	return all
}

// unclaimedText tells what waits for a decision; empty: nothing.
func (a *agent) unclaimedText() string {
	ctx, cancel := context.WithTimeout(context.Background(), unclaimedTime)
	defer cancel()
	what := "an allocation is"
	switch n := len(a.node.Unclaimed(ctx)); {
	case n == 0:
		return ""
	case n > 1:
		what = fmt.Sprintf("%d allocations are", n)
	}
	return what + " not known to be wanted: what runs goes on, and nothing is removed, until `wasmnode operator adopt` or `discard`; `wasmnode node status -self` says why"
}

// bootID is the machine's run; empty: it is not known.
func bootID() string {
	id, err := hostinfo.BootID()
	if err != nil {
		return ""
	}
	return id
}
