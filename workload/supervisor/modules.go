package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// keptModuleBytes bounds the modules that a server keeps for further starts.
const keptModuleBytes = 256 << 20

// digestOf names a module by its content.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// modules are the contents that were sent, so that a thousand tasks of one program
// send it once. The longest unused go first.
type modules struct {
	mu      sync.Mutex
	content map[string][]byte
	order   []string // the last used one is last
	bytes   int
}

func newModules() *modules { return &modules{content: map[string][]byte{}} }

func (m *modules) add(content []byte) {
	digest := digestOf(content)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.content[digest]; ok {
		return
	}
	m.content[digest], m.bytes = content, m.bytes+len(content)
	m.order = append(m.order, digest)
	for m.bytes > keptModuleBytes && len(m.order) > 1 {
		m.bytes -= len(m.content[m.order[0]])
		delete(m.content, m.order[0])
		m.order = m.order[1:]
	}
}

func (m *modules) find(digest string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.content[digest]
	if !ok {
		return nil, false
	}
	for i, d := range m.order {
		if d == digest {
			m.order = append(append(m.order[:i:i], m.order[i+1:]...), digest)
			break
		}
	}
	return content, true
}
