package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
)

// maxRemembered is how many bytes a node remembers of what servers have it run, as they send it:
// 20,000 allocations of ordinary jobs have a tenth of it. What is beyond it is reported as failed.
const maxRemembered = 512 << 20

// sizeOf is how many bytes an allocation has as servers send it.
func sizeOf(w *wireAlloc) int {
	raw, err := wire.Marshal(w)
	if err != nil {
		return maxRemembered // nothing that was decoded
	}
	return len(raw)
}

// storedSize is about that of one that the node has stored.
func storedSize(a *structs.Allocation) int {
	raw, _ := json.Marshal(a) // none: it counts for nothing
	return len(raw)
}

// fits refuses an allocation of a size that would have the node remember more than it may.
func (cp *ControlPlane) fits(id string, size int) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	all := cp.pulled.bytes + size
	if k := cp.pulled.known[id]; k != nil {
		all -= k.size
	}
	if all > cp.remembered {
		return fmt.Errorf("with it the node would have to remember %d bytes of allocations, and may %d", all, cp.remembered)
	}
	return nil
}
