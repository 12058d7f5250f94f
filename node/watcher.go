package node

import (
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/structs"
)

// watcher returns the watcher of an allocation. known are the node's, by ID.
func (n *Node) watcher(a *structs.Allocation, known map[string]*structs.Allocation) alloc.Watcher {
	return watcher.New(a, known, func(id string) watcher.Other {
		r, err := n.runner(id)
		if err != nil {
			return nil
		}
		return r
	}, n.cfg.Elsewhere)
}
