//go:build unix

package drivertest

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// ownGroup has a process and what it starts be signalled together.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to a process and what it started. One that has ended gets none.
func signalGroup(cmd *exec.Cmd, name string) error {
	signal := unix.SignalNum(name)
	if signal == 0 {
		return abi.NewError(abi.InvalidArgument, "unknown signal "+name)
	}
	if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return abi.NewError(abi.Internal, err.Error())
	}
	return nil
}

// resultOf is how a process ended.
func resultOf(cmd *exec.Cmd) *workload.Result {
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return &workload.Result{ExitCode: 128 + int32(status.Signal()), Signal: int32(status.Signal())}
	}
	return &workload.Result{ExitCode: int32(status.ExitStatus())}
}
