package wasmbin

import "github.com/wasmnode/wasmnode/internal/plaintext"

// The subsection of the name section that names functions.
const subsectionFuncs = 1

// maxFuncName bounds a function's name in bytes: the engine writes up to 30 of them into the error of
// a trap. That of a generic function of Go's can have some hundreds.
const maxFuncName = 512

// nameSection writes the functions' names, so that stack traces of guests stay
// readable. Names of anything else are dropped, and so are all when the section
// is not well-formed: it is a courtesy, which the format lets be wrong.
func (e *Editor) nameSection(w []byte) []byte {
	n, names := e.funcNames()
	if n == 0 {
		return w
	}
	names = append(AppendUnsigned(nil, n), names...)
	b := append(appendBytes(nil, "name"), subsectionFuncs)
	return section(w, secCustom, appendBytes(b, names))
}

func (e *Editor) funcNames() (n int, names []byte) {
	put := func(i uint32, name []byte) {
		names = appendBytes(AppendUnsigned(names, i), name)
		n++
	}
	added := e.yield == nil
	addImport := func(before uint32) {
		if !added && before > e.c.importedFuncs {
			put(e.c.importedFuncs, []byte(e.yield.module+"."+e.yield.name))
			added = true
		}
	}
	ok := e.m.eachFuncName(func(i uint32, name []byte) {
		i = e.c.moved(i)
		addImport(i)
		put(i, plaintext.Cut(name, maxFuncName))
	})
	if !ok {
		return 0, nil
	}
	addImport(^uint32(0))
	for i, f := range e.funcs {
		put(e.c.funcs+e.c.addedImports+uint32(i), []byte(f.name))
	}
	return n, names
}

// eachFuncName calls f with the function names, by rising index. It returns false
// when the section cannot be read; f may have been called by then.
func (m *Module) eachFuncName(f func(i uint32, name []byte)) bool {
	for _, c := range m.Customs {
		if c.Name == "name" {
			return m.readFuncNames(c, f)
		}
	}
	return true
}

func (m *Module) readFuncNames(c Custom, f func(i uint32, name []byte)) bool {
	r := newReader(m.bytes, c.content.from, c.content.to, "name section")
	for r.more() {
		id := r.Byte()
		size := r.U32()
		from := r.pos
		r.Bytes(size, "subsection")
		if id != subsectionFuncs || r.err != nil {
			continue
		}
		sub := newReader(m.bytes, from, r.pos, "name section")
		last := int64(-1)
		for n := sub.Count(2, ^uint32(0), "names"); n > 0 && sub.err == nil; n-- {
			at := sub.pos
			i, name := m.ctx.index(&sub, m.ctx.funcs, "function"), sub.Name()
			if int64(i) <= last {
				sub.malformed(at, "names are out of order")
			}
			if last = int64(i); sub.err == nil {
				f(i, name)
			}
		}
		sub.end()
		return sub.err == nil
	}
	return r.err == nil
}
