//go:build !unix

package drivertest

import (
	"os/exec"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// ownGroup does nothing: there are no groups of processes here.
func ownGroup(*exec.Cmd) {}

// signalGroup kills a process. It gets no other signal.
func signalGroup(cmd *exec.Cmd, name string) error {
	if name != "SIGKILL" {
		return abi.NewError(abi.Unimplemented, "there is no "+name+" here")
	}
	_ = cmd.Process.Kill() // it may have ended
	return nil
}

// resultOf is how a process ended.
func resultOf(cmd *exec.Cmd) *workload.Result {
	return &workload.Result{ExitCode: int32(cmd.ProcessState.ExitCode())}
}
