package sandbox

import (
	"errors"
	"runtime"

	"golang.org/x/sys/cpu"
)

// ErrProcessor is why nothing is compiled on a processor whose instructions the code would not all
// be: a process that comes to such a one ends, with the agent in it.
var ErrProcessor = errors.New("the processor has no SSE4.1, which compiled WebAssembly needs")

// CheckProcessor returns why this machine's processor cannot run what is compiled.
func CheckProcessor() error { return checkProcessor(runtime.GOARCH, cpu.X86.HasSSE41) }

func checkProcessor(processor string, sse41 bool) error {
	if processor == "amd64" && !sse41 {
		return ErrProcessor
	}
	return nil
}
