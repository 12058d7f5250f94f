package wasi

import (
	"errors"
	"io"

	"github.com/wasmnode/wasmnode/sandbox"
)

// pieceBytes is how much is written between two looks at whether the program is to end:
// one call of a guest can write its whole memory over and over.
const pieceBytes = 64 << 10

var errEnding = errors.New("the program is to end")

// output is a program's standard output or error.
type output struct {
	guest *sandbox.Guest
	to    io.Writer
}

// Write implements [io.Writer].
func (o output) Write(p []byte) (total int, err error) {
	for total < len(p) && err == nil {
		if o.guest.Over() {
			return total, errEnding
		}
		var n int
		n, err = o.to.Write(p[total:min(len(p), total+pieceBytes)])
		total += n
	}
	return total, err
}

// input is a file that is a program's standard input.
type input struct {
	guest *sandbox.Guest
	from  io.Reader
}

// Read implements [io.Reader]. It returns a piece at most, after which the engine
// reads no further buffers of the same call.
func (i input) Read(p []byte) (int, error) {
	if i.guest.Over() {
		return 0, errEnding
	}
	return i.from.Read(p[:min(len(p), pieceBytes)])
}
