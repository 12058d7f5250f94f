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
