package trial

import (
	"maps"
	"sync"

	"github.com/wasmnode/wasmnode/host"
)

// memory keeps what a plugin keeps for as long as the trial lasts.
type memory struct {
	mu     sync.Mutex
	values map[string]map[string]host.Kept // by plugin
}

var _ host.Store = (*memory)(nil)

// Values implements [host.Store].
func (m *memory) Values(plugin string) (map[string]host.Kept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values[plugin]), nil
}

// Put implements [host.Store].
func (m *memory) Put(plugin, key string, v host.Kept) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]map[string]host.Kept{}
	}
	if m.values[plugin] == nil {
		m.values[plugin] = map[string]host.Kept{}
	}
	m.values[plugin][key] = v
	return nil
}

// Delete implements [host.Store].
func (m *memory) Delete(plugin, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values[plugin], key)
	return nil
}
