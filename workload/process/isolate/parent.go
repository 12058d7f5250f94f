package isolate

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// Executable returns what to start as [Program]: this program, on a mount of its own that is
// read-only. A task finds it in its /proc when it can look into the new process, and
// could write to the node's file otherwise.
var Executable = sync.OnceValues(func() (string, error) {
	// It stays open for as long as this process lives.
	tree, err := cloneTree(unix.AT_FDCWD, "/proc/self/exe", unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return "", fmt.Errorf("this program on a mount of its own: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", tree), nil
})

// Send sends a new process its spec, over the other ends of its pipes, and
// returns when it has executed the command, or why it has not.
func Send(spec io.Writer, report io.Reader, s *Spec) error {
	sendErr := json.NewEncoder(spec).Encode(s)
	// A process that ends early reports why.
	reported, err := io.ReadAll(io.LimitReader(report, 64<<10))
	switch {
	case len(reported) > 0:
		var e abi.Error
		if err := json.Unmarshal(reported, &e); err != nil {
			return fmt.Errorf("isolation: %q", reported)
		}
		return &e
	case sendErr != nil:
		return fmt.Errorf("the new process ended before it could be isolated: %w", sendErr)
	}
	return err
}
