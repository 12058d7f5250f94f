package wasi

import (
	"crypto/rand"
	"errors"
	"io"
)

// pieceBytes is how much is moved between two looks at whether the program is to end:
// one call of a guest can ask for its whole memory over and over.
const pieceBytes = 1 << 20

var errEnding = errors.New("the program is to end")

// output is a program's standard output or error.
type output struct {
	done <-chan struct{}
	to   io.Writer
}

func (o output) Write(p []byte) (int, error) {
	return inPieces(o.done, p, o.to.Write)
}

// entropy is a program's source of randomness.
type entropy struct{ done <-chan struct{} }

func (e entropy) Read(p []byte) (int, error) {
	return inPieces(e.done, p, rand.Read)
}

func inPieces(done <-chan struct{}, p []byte, move func([]byte) (int, error)) (total int, err error) {
	// Once for nothing, too: a guest can ask for that a million times in one call.
	for {
		select {
		case <-done:
			return total, errEnding
		default:
		}
		n, err := move(p[total:min(len(p), total+pieceBytes)])
		total += n
		if err != nil || total == len(p) {
			return total, err
		}
	}
}
