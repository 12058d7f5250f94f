package main

import "io"

// escapeReader reads what is typed, and notices the escape character at the beginning
// of a line: with '.' behind it, it ends the session; twice, it is typed once; before
// anything else it is nothing special.
type escapeReader struct {
	r      io.Reader
	char   byte
	ended  func() // called once, when the session is to end
	begins bool   // what comes next is a line's first
	held   bool   // the character was typed, and waits for what is behind it
	buffer [4 << 10]byte
	ready  []byte
	err    error // behind what is ready
}

func newEscapeReader(r io.Reader, char byte, ended func()) *escapeReader {
	return &escapeReader{r: r, char: char, ended: ended, begins: true}
}

// Read implements [io.Reader].
func (e *escapeReader) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		n, err := e.r.Read(e.buffer[:])
		e.err = err
		e.take(e.buffer[:n])
		if e.err != nil && e.held {
			e.ready, e.held = append(e.ready, e.char), false
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

func (e *escapeReader) take(typed []byte) {
	for _, c := range typed {
		switch {
		case e.held && c == '.':
			e.held, e.err = false, io.EOF
			e.ended()
			return
		case e.held:
			e.held, e.begins = false, false
			e.ready = append(e.ready, e.char)
			if c == e.char {
				continue
			}
		case e.begins && c == e.char:
			e.held = true
			continue
		}
		e.ready = append(e.ready, c)
		e.begins = c == '\n' || c == '\r'
	}
}
