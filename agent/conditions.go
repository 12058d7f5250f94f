package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// conditions are what the operator has to know about this agent now. The zero value has
// none. Methods may be called concurrently.
type conditions struct {
	mu     sync.Mutex
	byName map[string]structs.Condition
}

// set records a condition, or its new text. One that goes on keeps its Since.
func (c *conditions) set(now structs.Condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now.Since = time.Now()
	if before, ok := c.byName[now.Name]; ok {
		now.Since = before.Since
	}
	if c.byName == nil {
		c.byName = map[string]structs.Condition{}
	}
	c.byName[now.Name] = now
}

// clear ends a condition, if there is one of that name.
func (c *conditions) clear(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byName, name)
}

// has reports whether there is a condition of that name.
func (c *conditions) has(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byName[name]
	return ok
}

// list returns all conditions, the oldest first.
func (c *conditions) list() []structs.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.byName), func(a, b structs.Condition) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
}
