package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/structs"
)

// unclaimedTime bounds the look at what is unclaimed, for an answer that must not wait.
const unclaimedTime = time.Second

// adoptionConditions tell what the control plane had lost when the agent started, and what
// waits for a decision now.
func (a *agent) adoptionConditions() (all []structs.Condition) {
	if got := a.node.Adoption(); got != nil && (got.Why != "" || len(got.Adopted) > 0) {
		all = append(all, structs.Condition{Name: "adoption", Server: true, Text: got.String()})
	}
	ctx, cancel := context.WithTimeout(context.Background(), unclaimedTime)
	defer cancel()
	if list := a.node.Unclaimed(ctx); len(list) > 0 {
		ids := make([]string, len(list))
		for i, u := range list {
			ids[i] = u.AllocID
		}
		all = append(all, structs.Condition{Name: "unclaimed", Text: fmt.Sprintf(
			"it is not known whether %s is wanted: it runs on until `wasmnode operator adopt` or `discard`; `wasmnode node status -self` says why", strings.Join(ids, ", "))})
	}
	return all
}

// bootID is the machine's run; empty: it is not known.
func bootID() string {
	id, err := hostinfo.BootID()
	if err != nil {
		return ""
	}
	return id
}
