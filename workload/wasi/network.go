package wasi

import (
	"runtime"

	"github.com/wasmnode/wasmnode/workload/namespace"
)

// inNetwork does something on a thread that is in the network namespace at path; empty: in
// this process's own.
func inNetwork(path string, do func() error) error {
	if path == "" {
		return do()
	}
	network, err := namespace.OpenNetwork(path, "")
	if err != nil {
		return err
	}
	defer network.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		lost, err := namespace.Networks.Within(int(network.Fd()), do)
		if lost == nil { // else the thread ends with the goroutine
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
