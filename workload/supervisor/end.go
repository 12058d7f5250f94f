package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// End ends the supervisor of a directory, and with it every workload that it owns. It returns
// when its process has ended, also if there was none. What had ended by itself keeps
// its result; what ends now has none, as after a crash of the machine: it did not fail.
//
// # Errors
//
// It does not answer, or has not ended when ctx is done.
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

// terminate ends the process that answers in a directory. Its number is the right one as long as
// it is not gone, which its descriptor holds it to.
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
	process, err := unix.PidfdOpen(int(peer.Pid), 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(process) }() // nothing is written to it
	if err := unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending the supervisor, process %d: %w", peer.Pid, err)
	}
	for !hasEnded(process) {
		select {
		case <-time.After(lookInterval / 100):
		case <-ctx.Done():
			return fmt.Errorf("the supervisor of %s does not end: %w", dir, ctx.Err())
		}
	}
	return nil
}

// hasEnded reports whether a process has ended, although nobody may have waited for it.
func hasEnded(pidfd int) bool {
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && ready > 0
}
