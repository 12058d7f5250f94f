package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// End ends the supervisor of a directory, and with it every workload that it owns. It returns
// when it has let go of the directory, also if there was none.
//
// # Errors
//
// It does not answer, or is not gone when ctx is done.
func End(ctx context.Context, dir string) error {
	if !held(dir) {
		return nil
	}
	if err := terminate(ctx, dir); err != nil {
		return err
	}
	for held(dir) {
		select {
		case <-time.After(lookInterval / 100):
		case <-ctx.Done():
			return fmt.Errorf("the supervisor of %s does not end: %w", dir, ctx.Err())
		}
	}
	return nil
}

// terminate asks the process to end that answers in a directory. Its number is the right one as
// long as it is not gone, which its descriptor holds it to.
func terminate(ctx context.Context, dir string) error {
	c, err := dial(ctx, Socket(dir))
	if err != nil {
		if !held(dir) {
			return nil // it went meanwhile
		}
		return fmt.Errorf("a supervisor runs and does not answer, see the process ID in %s: %w", filepath.Join(dir, lockName), err)
	}
	defer c.Close()
	peer, err := peerOf(c)
	if err != nil {
		return err
	}
	process, err := os.FindProcess(int(peer.Pid))
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }() // only its number was held
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending the supervisor, process %d: %w", peer.Pid, err)
	}
	return nil
}
