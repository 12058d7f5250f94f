package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process"
)

// HandoverVersion is the version of what a supervisor leaves to the program that
// replaces it. Programs of another one refuse to.
const HandoverVersion = 1

// handoverEnv names the file descriptor of what was left.
const handoverEnv = "WASMNODE_SUPERVISOR_HANDOVER"

// handover is what a supervisor leaves to the program that replaces it: open files, by
// their descriptors, and what they are.
type handover struct {
	Lock      int
	Listener  int
	Processes *process.Handover
}

// inherited returns what an earlier program in this process left; nil: there was none.
func inherited() (*handover, error) {
	text := os.Getenv(handoverEnv)
	if text == "" {
		return nil, nil
	}
	if err := os.Unsetenv(handoverEnv); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", handoverEnv, err)
	}
	f := os.NewFile(uintptr(fd), "handover")
	defer f.Close()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	h := &handover{}
	if err := json.NewDecoder(f).Decode(h); err != nil {
		return nil, fmt.Errorf("handover of the previous program: %w", err)
	}
	for _, fd := range h.files() {
		unix.CloseOnExec(fd)
	}
	return h, nil
}

func (h *handover) files() []int {
	return append([]int{h.Lock, h.Listener}, h.Processes.Files()...)
}

// listener is the socket that clients wait at.
func (h *handover) listener() (net.Listener, error) {
	f := os.NewFile(uintptr(h.Listener), "socket")
	defer f.Close()
	return net.FileListener(f)
}

// exec has another program go on in this process, with the same arguments. It returns
// only if that fails, and then all is as before. It has to be called by the thread that
// the processes were forked by.
func (h *handover) exec(program string) error {
	fd, err := unix.MemfdCreate("handover", 0)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "handover")
	defer f.Close()
	if err := json.NewEncoder(f).Encode(h); err != nil {
		return err
	}
	for _, fd := range h.files() {
		defer unix.CloseOnExec(fd)
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	args := append([]string{program}, os.Args[1:]...)
	env := append(slices.Clone(os.Environ()), handoverEnv+"="+strconv.Itoa(fd))
	// Ignoring outlives the replacement, catching does not.
	signal.Ignore(syscall.SIGHUP)
	defer OutliveHangups()
	return &os.PathError{Op: "exec", Path: program, Err: syscall.Exec(program, args, env)}
}

// checkHandoverVersion reports why a program cannot go on with what this one would leave.
func checkHandoverVersion(program string) error {
	out, err := exec.Command(program, "supervisor", "-handover-version").Output()
	if err != nil {
		return fmt.Errorf("%s does not report the handover version that it supports: %w", program, err)
	}
	if version := strings.TrimSpace(string(out)); version != strconv.Itoa(HandoverVersion) {
		return errors.New(program + " is of another handover version: " + version)
	}
	return nil
}
