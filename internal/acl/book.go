package acl

import "sync"

// Book has the rules of policies, each read once. It is safe for concurrent use.
type Book struct {
	find   func(name string) (text string, index uint64)
	failed func(name string, err error)

	mu    sync.Mutex
	known map[string]entry
}

// entry has the rules of a policy that was changed last at an index; nil: it cannot be read.
type entry struct {
	index uint64
	rules *Rules
}

// NewBook makes a book of policies. find returns what one says, and the index of its last
// change, 0 where there is none of that name; failed is told of each that cannot be read.
func NewBook(find func(name string) (text string, index uint64), failed func(name string, err error)) *Book {
	return &Book{find: find, failed: failed, known: map[string]entry{}}
}

// Rules are those of a policy. One that is not there, or cannot be read, has none, and allows
// nothing.
func (b *Book) Rules(name string) *Rules {
	text, index := b.find(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, is := b.known[name]; is && known.index == index {
		return known.rules
	}
	if index == 0 {
		delete(b.known, name)
		return nil
	}
	rules, err := ParseRules(text)
	if err != nil {
		b.failed(name, err)
		rules = nil
	}
	b.known[name] = entry{index, rules}
	return rules
}

// All are the rules of several policies.
func (b *Book) All(names []string) (all []*Rules) {
	for _, name := range names {
		all = append(all, b.Rules(name))
	}
	return all
}
