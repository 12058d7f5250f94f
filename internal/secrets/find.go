package secrets

import "cmp"

// finder finds texts in another, all of them in one pass (after Aho and Corasick): how long that takes
// does not depend on how many there are. It is not changed once it is made.
type finder struct {
	texts []string
	size  int        // of the texts together
	root  [256]int32 // the children of the root, by their byte
	nodes []findNode
}

// findNode stands for the beginning of a text, and is one byte longer than its parent. 0 is the root,
// and where a node is missing.
type findNode struct {
	child, sibling int32
	suffix         int32 // the longest other beginning that this one ends in
	longest        int32 // bytes of the longest text that this one ends in; 0: it ends in none
	depth          int32 // bytes of this one
	last           byte
}

// newFinder returns one of texts that are not empty.
func newFinder(texts []string) *finder {
	f := &finder{texts: texts, nodes: make([]findNode, 1)}
	for _, text := range texts {
		f.size += len(text)
		n := int32(0)
		for i := range len(text) {
			n = f.grow(n, text[i])
		}
		f.nodes[n].longest = int32(len(text)) //nolint:gosec // secrets are bounded
	}
	f.link()
	return f
}

// grow returns a node's child of that byte, a new one if there is none.
func (f *finder) grow(n int32, b byte) int32 {
	if c := f.child(n, b); c != 0 {
		return c
	}
	c := int32(len(f.nodes)) //nolint:gosec // as above
	f.nodes = append(f.nodes, findNode{last: b, depth: f.nodes[n].depth + 1, sibling: f.nodes[n].child})
	f.nodes[n].child = c
	if n == 0 {
		f.root[b] = c
	}
	return c
}

// link sets the suffixes, those of short beginnings first.
func (f *finder) link() {
	todo := []int32{0}
	for i := 0; i < len(todo); i++ {
		n := todo[i]
		for c := f.nodes[n].child; c != 0; c = f.nodes[c].sibling {
			if n != 0 {
				f.nodes[c].suffix = f.step(f.nodes[n].suffix, f.nodes[c].last)
			}
			f.nodes[c].longest = cmp.Or(f.nodes[c].longest, f.nodes[f.nodes[c].suffix].longest)
			todo = append(todo, c)
		}
	}
}

func (f *finder) child(n int32, b byte) int32 {
	if n == 0 {
		return f.root[b]
	}
	c := f.nodes[n].child
	for c != 0 && f.nodes[c].last != b {
		c = f.nodes[c].sibling
	}
	return c
}

// step returns the longest beginning that one followed by a byte ends in.
func (f *finder) step(n int32, b byte) int32 {
	for {
		if c := f.child(n, b); c != 0 || n == 0 {
			return c
		}
		n = f.nodes[n].suffix
	}
}

// has reports whether a text is one of those to be found.
func (f *finder) has(text string) bool {
	n := int32(0)
	for i := range len(text) {
		if n = f.child(n, text[i]); n == 0 {
			return false
		}
	}
	return int(f.nodes[n].longest) == len(text)
}

// find appends where s has a text: of those that end in one place the longest. Cut: and where it ends
// in the beginning of one, of at least [Least] bytes.
func (f *finder) find(found []span, s string, cut bool) []span {
	n := int32(0)
	for i := range len(s) {
		n = f.step(n, s[i])
		if long := int(f.nodes[n].longest); long > 0 {
			found = append(found, span{i + 1 - long, i + 1})
		}
	}
	if begun := int(f.nodes[n].depth); cut && begun >= Least {
		found = append(found, span{len(s) - begun, len(s)})
	}
	return found
}
