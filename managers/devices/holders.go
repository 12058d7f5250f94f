package devices

import (
	"context"
	"fmt"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
)

// holders knows, as far as this agent has reserved them itself, who has which
// device, so that a plugin gets a release before the next reservation. What
// was reserved before the agent was restarted is not known here: that two tasks never
// have one device is the scheduler's to see to.
type holders struct {
	mu      sync.Mutex
	holders map[heldDevice]structs.DeviceUser
	changed chan struct{} // closed and replaced with each release; nil: none yet
}

type heldDevice struct {
	group structs.DeviceGroupID
	id    string
}

// hold waits until the devices are free, and takes them. The error is an
// abi.Error: UNAVAILABLE and recoverable.
func (h *holders) hold(ctx context.Context, d structs.AllocatedDevice, user structs.DeviceUser) error {
	for {
		who, changed := h.tryHold(d, user)
		if who == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("device %s is still held by %s", d.Group(), who))
		}
	}
}

// tryHold takes the devices, or returns one who has some of them and what is closed
// when that may have changed.
func (h *holders) tryHold(d structs.AllocatedDevice, user structs.DeviceUser) (who string, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holders == nil {
		h.holders, h.changed = map[heldDevice]structs.DeviceUser{}, make(chan struct{})
	}
	for _, id := range d.DeviceIDs {
		if holder, held := h.holders[heldDevice{d.Group(), id}]; held && holder != user {
			return fmt.Sprintf("task %q of allocation %s", holder.Task, holder.AllocID), h.changed
		}
	}
	for _, id := range d.DeviceIDs {
		h.holders[heldDevice{d.Group(), id}] = user
	}
	return "", nil
}

// free lets go of the devices that the user has.
func (h *holders) free(d structs.AllocatedDevice, user structs.DeviceUser) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range d.DeviceIDs {
		key := heldDevice{d.Group(), id}
		if holder, held := h.holders[key]; held && holder == user {
			delete(h.holders, key)
		}
	}
	if h.changed != nil {
		close(h.changed)
		h.changed = make(chan struct{})
	}
}
