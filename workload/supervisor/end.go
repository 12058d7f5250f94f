package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// End ends the supervisor of a directory, and with it every workload that it owns. It returns
// when it has let go of the directory, also if there was none. What had ended by itself keeps
// its result; what ends now has none, as after a crash of the machine: it did not fail.
//
// # Errors
//
// It does not answer, or is not gone when ctx is done.
func End(ctx context.Context, dir string) error {
	if !held(dir) {
		return nil
	}
	before, err := resultNames(dir)
	if err != nil {
		return err
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
	after, err := resultNames(dir)
	for name := range after {
		if !before[name] {
			err = errors.Join(err, os.Remove(filepath.Join(Results(dir), name)))
		}
	}
	return err
}

// resultNames are the files of results.
func resultNames(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(Results(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, err
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
	defer func() { _ = c.Close() }() // nothing is written to it
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
