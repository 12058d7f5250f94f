package node

import (
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/structs"
)

// watcher returns the watcher of an allocation. before maps an allocation to the one
// that it replaces.
func (n *Node) watcher(a *structs.Allocation, before map[string]string) alloc.Watcher {
	return watcher.New(a, before, func(id string) watcher.Other {
		r, err := n.runner(id)
		if err != nil {
			return nil
		}
		return r
	})
}
