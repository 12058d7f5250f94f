package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// The files in a supervisor's directory.
const (
	socketName  = "supervisor.sock"
	lockName    = "lock"
	logName     = "supervisor.log"
	resultsName = "results"
)

// Socket is where the supervisor of that directory answers.
func Socket(dir string) string { return filepath.Join(dir, socketName) }

// Results is where it writes results down.
func Results(dir string) string { return filepath.Join(dir, resultsName) }

// readyFD is the file descriptor on which a supervisor reports that it answers, or why
// it does not.
const readyFD = 3

// readyEnv is set when the launching process reads from there.
const readyEnv = "WASMNODE_SUPERVISOR_READY"

// ready is that line when it answers.
const ready = "ready"

// Launch starts a command as the supervisor of a directory, in a session of its own,
// and returns when it answers. It goes on when the caller ends, and when ctx does.
func Launch(ctx context.Context, dir string, command []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), readyEnv+"=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	failpoint.Here("launch")
	err = cmd.Start()
	failpoint.Here("launched")
	_ = w.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it is ours for as long as we are
	return awaitReady(ctx, r)
}

// awaitReady reads the line that a supervisor writes when it is ready, or fails.
func awaitReady(ctx context.Context, r *os.File) error {
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(r, 4096)).ReadString('\n')
		first <- strings.TrimSpace(line)
	}()
	select {
	case line := <-first:
		switch line {
		case ready:
			return nil
		case "":
			return errors.New("it ended without a message; see its log")
		}
		return errors.New(line)
	case <-ctx.Done():
		_ = r.Close() // and the goroutine ends
		return context.Cause(ctx)
	}
}

// Announce reports to the process that launched this one that it answers, or why it does not.
// It does nothing in a process that was started by hand.
func Announce(err error) {
	if os.Getenv(readyEnv) == "" {
		return
	}
	_ = os.Unsetenv(readyEnv)
	f := os.NewFile(readyFD, "ready")
	line := ready
	if err != nil {
		line = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	_, _ = fmt.Fprintln(f, line) // the launching process may have gone
	_ = f.Close()
}

// Lock makes this process the directory's one supervisor, until it ends. The lock
// file holds its process ID, for people.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s has a supervisor already", dir)
	}
	failpoint.Here("locked")
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func writePID(f *os.File) error {
	_, err := fmt.Fprintln(f, os.Getpid())
	return err
}
