package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/wasmnode/wasmnode/abi"
)

// Available reports whether Enter was called in this process, so that its program can be
// started as [Program].
func Available() bool { return entered }

// Instruct tells a new process what to become, over the other ends of its pipes, and
// returns when it has become the command, or why it has not.
func Instruct(spec io.Writer, report io.Reader, s *Spec) error {
	sendErr := json.NewEncoder(spec).Encode(s)
	// A process that ends early says why.
	said, err := io.ReadAll(io.LimitReader(report, 64<<10))
	switch {
	case len(said) > 0:
		var e abi.Error
		if err := json.Unmarshal(said, &e); err != nil {
			return fmt.Errorf("isolation: %q", said)
		}
		return &e
	case sendErr != nil:
		return errors.Join(errors.New("the new process ended before it could be isolated"), sendErr)
	}
	return err
}
