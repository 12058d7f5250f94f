package supervisor

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// protocol is the protocol's version. Agent and supervisor need the same:
// an agent that was replaced by a later one meets the supervisor of the earlier.
const protocol = 1

// Hello is a supervisor's answer to the handshake.
type Hello struct {
	Protocol int
	Version  string // of the program
	Program  string // see programID; empty: not known
	PID      int
}

// The operations, each at /v1/ and its name.
const (
	opHello       = "hello"
	opModule      = "module" // the body is the module's content
	opStart       = "start"
	opStartWhole  = "start-whole"  // a start with what the first supervisors would leave out
	opStartBeside = "start-beside" // likewise, of one that ends with another
	opWait        = "wait"
	opEnds        = "ends"   // the answer is a stream of lines, an ended each
	opResult      = "result" // what a line told of one workload
	opStop        = "stop"
	opSignal      = "signal"
	opStats       = "stats"
	opInspect     = "inspect"
	opList        = "list"
	opDestroy     = "destroy"
	opReplace     = "replace" // the supervisor's program by another
	opExec        = "exec"    // the connection becomes one of frames
	opRun         = "run"     // likewise, for a helper
)

// request is what all operations are asked with.
type request struct {
	ID      string         `json:",omitempty"`
	Signal  string         `json:",omitempty"`
	Timeout time.Duration  `json:",omitempty"`
	Spec    *workload.Spec `json:",omitempty"`
	// Module is the digest of the spec's module, which is sent once and not with
	// every start.
	Module string `json:",omitempty"`
	// Program is the path of the program that is to replace the supervisor's.
	Program string `json:",omitempty"`
	// Owns: with hello, the workloads belong to who asks, see owner.
	Owns bool `json:",omitempty"`
}

// statusUnknownModule: the start's module has to be sent first.
const statusUnknownModule = http.StatusPreconditionRequired

// statusFailed comes with an error of the operation itself.
const statusFailed = http.StatusUnprocessableEntity

func writeError(w http.ResponseWriter, err error) {
	w.WriteHeader(statusFailed)
	_ = json.NewEncoder(w).Encode(abi.Flat(err)) // the client may have gone
}

func readError(r *http.Response) error {
	var e abi.Error
	if r.StatusCode == http.StatusNotFound {
		return abi.NewError(abi.Unimplemented, "the supervisor of workloads is of an earlier version, which cannot do this: it is replaced once its WASI programs have ended and the agent starts again")
	}
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil || e.Code == 0 {
		return errors.New("the supervisor answered " + r.Status)
	}
	return &e
}
