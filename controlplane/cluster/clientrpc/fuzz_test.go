package clientrpc

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// idle is a node that runs nothing.
type idle struct{}

var errNotHere = errdefs.New(errdefs.NotFound, "it is not here")

func (idle) RestartAllocation(context.Context, string, string, bool) error   { return errNotHere }
func (idle) SignalAllocation(context.Context, string, string, string) error  { return errNotHere }
func (idle) CanExec(string, string) error                                    { return errNotHere }
func (idle) AllocationChecks(string) (map[string]structs.CheckResult, error) { return nil, errNotHere }
func (idle) Files(string) (clientapi.Files, error)                           { return nil, errNotHere }
func (idle) Metadata() structs.NodeMeta                                      { return structs.NodeMeta{} }
func (idle) HostUsage() (*structs.HostUsage, error)                          { return &structs.HostUsage{}, nil }
func (idle) CollectGarbage(context.Context)                                  {}
func (idle) CollectAllocation(context.Context, string) error                 { return errNotHere }
func (idle) Allocation(string) (*structs.Allocation, error)                  { return nil, errNotHere }
func (idle) AllocationState(string) (*structs.AllocationState, error)        { return nil, errNotHere }
func (idle) TaskEnd(context.Context, string, string) <-chan struct{}         { return nil }
func (idle) AllocationUsage(context.Context, string, string) (*structs.AllocationUsage, error) {
	return nil, errNotHere
}

func (idle) ApplyMetadata(context.Context, map[string]*string) (structs.NodeMeta, error) {
	return structs.NodeMeta{}, nil
}

func (idle) Exec(context.Context, string, string, *workload.ExecSpec) (*structs.ExitResult, error) {
	return nil, errNotHere
}

// FuzzArguments answers requests with arguments of any kind, none of which is to be an error of
// ours.
func FuzzArguments(f *testing.F) {
	for _, seed := range []any{
		args{"AllocID": "a", "Task": "t", "Signal": "SIGHUP", "Path": "../..", "NodeID": "", "Meta": args{"a": nil}},
		args{"ReqType": "cmdline", "Seconds": -1, "ID": "v", "Name": "n", "PluginID": "p", "Parameters": args{"a": "b"}},
		args{"Cmd": []string{"sh"}, "Tty": true, "Origin": "end", "Offset": 1 << 40, "Limit": -1, "LogType": "stdout"}, "text", []any{1, nil},
	} {
		raw, err := wire.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	s := newServer(Config{Logger: hclog.NewNullLogger(), Node: idle{}, Identity: &identity{}})
	methods := slices.Sorted(func(yield func(string) bool) {
		for method := range s.calls {
			if method != "NodeIdentity.Renew" && !yield(method) {
				return
			}
		}
	})
	f.Fuzz(func(t *testing.T, raw []byte) {
		decode := func(v any) error { return wire.Unmarshal(raw, v) }
		for _, method := range methods {
			reply, err := s.answer(t.Context(), method, decode)
			if err != nil && strings.Contains(err.Error(), "internal error") {
				t.Fatalf("%s: %v", method, err)
			}
			if _, bad := wire.Marshal(reply); bad != nil {
				t.Fatalf("%s: %v", method, bad)
			}
		}
		for method := range s.methods {
			if err := s.serve(t.Context(), method, decode, nil); err == nil || strings.Contains(err.Error(), "internal error") {
				t.Fatalf("%s: %v", method, err)
			}
		}
	})
}

// FuzzExecInput reads what a hostile server may send into a command.
func FuzzExecInput(f *testing.F) {
	for _, seed := range []any{
		args{"Stdin": args{"Data": []byte("ls\n"), "Close": true}, "TtySize": args{"Height": 24, "Width": -1}, "Setup": nil}, args{"Stdin": nil}, []any{1},
	} {
		raw, err := wire.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var message execInput
		if wire.Unmarshal(raw, &message) != nil {
			return
		}
		var in nomad.ExecStreamingInput
		message.into(&in)
		if in.Stdin != nil && len(in.Stdin.Data) > len(raw) {
			t.Fatalf("%d bytes of %d", len(in.Stdin.Data), len(raw))
		}
	})
}
