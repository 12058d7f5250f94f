package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/recorded"
	"github.com/wasmnode/wasmnode/structs"
)

// What real servers and Nomad's own client of them have said to each other, by version. It is made by
// "make recordings".
const recordings = "testdata/recorded"

// replay is a server that answers what a real one was heard to answer Nomad's own client.
type replay struct {
	address string
	heard   []recorded.Exchange // between that client and its server
	allocs  map[string]map[string]any

	mu   sync.Mutex
	sent []recorded.Exchange // by the node
}

func startReplay(t *testing.T, heard []recorded.Exchange) *replay {
	t.Helper()
	s := &replay{heard: heard, allocs: map[string]map[string]any{}}
	for _, x := range recorded.Of(heard, recorded.ByNode, "Alloc.GetAllocs") {
		for _, a := range list(x.Reply, "Allocs") {
			alloc := a.(map[string]any)
			s.allocs[alloc["ID"].(string)] = alloc // the newest of each
		}
	}
	s.address, _ = serve(t, &wire.Handler{Call: s.answer})
	return s
}

func (s *replay) answer(ctx context.Context, method string, decode func(any) error) (any, error) {
	var args any
	if err := decode(&args); err != nil {
		return nil, err
	}
	if strings.HasPrefix(method, "Status.") { // the address is tried
		return nil, nil
	}
	s.mu.Lock()
	s.sent = append(s.sent, recorded.Exchange{By: recorded.ByNode, Method: method, Args: args})
	s.mu.Unlock()
	switch fields, _ := args.(map[string]any); method {
	case "Node.GetClientAllocs":
		if fields["MinQueryIndex"] != int64(0) { // nothing changes any more
			<-ctx.Done()
			return nil, ctx.Err()
		}
		told := map[string]any{}
		for id, a := range s.allocs {
			told[id] = a["AllocModifyIndex"]
		}
		return map[string]any{"Allocs": told, "MigrateTokens": nil, "Index": int64(1 << 20)}, nil
	case "Alloc.GetAllocs":
		var found []any
		for _, id := range list(args, "AllocIDs") {
			found = append(found, s.allocs[id.(string)])
		}
		return map[string]any{"Allocs": found, "Index": int64(1 << 20)}, nil
	}
	for _, x := range recorded.Of(s.heard, recorded.ByNode, method) {
		if x.Error == "" {
			return x.Reply, nil
		}
	}
	return nil, wire.ErrNoMethod
}

// list is a field of a value that has a list; nil: there is none.
func list(v any, field string) []any {
	fields, _ := v.(map[string]any)
	l, _ := fields[field].([]any)
	return l
}

// heardOf are the recordings, by the servers' version.
func heardOf(t *testing.T) map[string][]recorded.Exchange {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordings, "*", "nomad.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string][]recorded.Exchange{}
	for _, file := range files {
		heard, err := recorded.Read(file)
		require.NoError(t, err)
		all[filepath.Base(filepath.Dir(file))] = heard
	}
	return all
}

// A node says to servers what Nomad's own client was heard to say to real ones, method by method and field
// by field; where it does not, differences.json says why.
func TestWhatIsSentIsWhatNomadsOwnClientSends(t *testing.T) {
	meant, err := recorded.ReadDifferences(filepath.Join(recordings, "differences.json"))
	require.NoError(t, err)
	var mu sync.Mutex
	used := map[int]bool{}
	t.Run("versions", func(t *testing.T) {
		for version, heard := range heardOf(t) {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				s := startReplay(t, heard)
				s.live(t)
				s.says(t)
				theirs := slices.DeleteFunc(slices.Clone(heard), func(x recorded.Exchange) bool {
					return x.By != recorded.ByNode || strings.HasPrefix(x.Method, "Status.")
				})
				var unexplained []string
				mu.Lock()
				defer mu.Unlock()
				for _, d := range recorded.CompareAll(theirs, s.sent) {
					if n := meant.Index(d); n >= 0 {
						used[n] = true
					} else {
						unexplained = append(unexplained, d.String())
					}
				}
				require.Empty(t, unexplained, "what no line of differences.json explains")
			})
		}
	})
	for n, d := range meant {
		require.NotEmpty(t, d.Why, d.Where)
		require.True(t, used[n], "no recording has the difference %q (%s) any more", d.Where, d.Way)
	}
}

// live has a node register, run what it is told to run, and ask for what it needs meanwhile, just as
// Nomad's own client did.
func (s *replay) live(t *testing.T) {
	t.Helper()
	cp, err := Open(Config{Servers: []string{s.address}, Region: "global", Logger: hclog.NewNullLogger(), Secret: func() (string, error) { return recorded.SecretID, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Close()) })
	for range 2 { // the second time as one that is known
		_, err = cp.Register(t.Context(), everything())
		require.NoError(t, err)
	}
	if recorded.Of(s.heard, recorded.ByServer, "NodeIdentity.Renew") != nil {
		cp.Renew()
	}
	_, err = cp.Heartbeat(t.Context(), recorded.NodeID)
	require.NoError(t, err)
	news, err := cp.Allocations(t.Context(), recorded.NodeID, 0)
	require.NoError(t, err)
	require.Len(t, news.Changed, len(s.allocs), "one was refused")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = cp.Allocations(ctx, recorded.NodeID, news.Index)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing has changed")
	s.reports(t, cp)
	s.asks(t, cp)
}

// everything is a node that has whatever there is to tell of one.
func everything() *structs.Node {
	n := described()
	n.ID = recorded.NodeID
	n.Meta = map[string]string{"color": "red"}
	n.Interface.Name, n.Interface.MAC = "eth0", "00:00:5e:00:53:01"
	n.Drivers["raw_exec"].Attributes = map[string]string{"driver.raw_exec": "true"}
	n.Drivers["raw_exec"].HealthDescription, n.Drivers["raw_exec"].UpdateTime = "Healthy", time.Now()
	n.HTTPAddress = "192.0.2.7:4646"
	return n
}

// reports has the node report all that Nomad's own client did.
func (s *replay) reports(t *testing.T, cp *ControlPlane) {
	t.Helper()
	for _, x := range recorded.Of(s.heard, recorded.ByNode, "Node.UpdateAlloc") {
		var states []*structs.AllocationState
		for _, one := range list(x.Args, "Alloc") {
			var w wireAlloc
			as(t, one, &w)
			a := cp.Allocation(w.ID)
			if a == nil {
				continue // another one that is like it was kept
			}
			state := &structs.AllocationState{
				ID: w.ID, ClientStatus: structs.ClientStatus(w.ClientStatus), ClientDescription: w.ClientDescription, TaskStates: w.taskStates(),
			}
			if d := w.DeploymentStatus; d != nil {
				state.DeploymentStatus = &structs.DeploymentStatus{Healthy: d.Healthy, Timestamp: d.Timestamp, Canary: d.Canary, DeploymentID: a.DeploymentID}
			}
			var more struct{ NetworkStatus *wireNetworkStatus }
			as(t, one, &more)
			if n := more.NetworkStatus; n != nil {
				state.Network = &structs.AllocNetwork{Interface: n.InterfaceName, Address: n.Address, AddressIPv6: n.AddressIPv6}
			}
			states = append(states, state)
		}
		cp.lastSent = time.Time{} // the test does not wait between them
		require.NoError(t, cp.UpdateAllocations(t.Context(), recorded.NodeID, states))
	}
}

// asks has the node ask for all that Nomad's own client did.
func (s *replay) asks(t *testing.T, cp *ControlPlane) {
	t.Helper()
	var registered []*structs.ServiceRegistration
	for _, x := range recorded.Of(s.heard, recorded.ByNode, "ServiceRegistration.Upsert") {
		var args struct{ Services []*wireService }
		as(t, x.Args, &args)
		for _, w := range args.Services {
			registered = append(registered, &structs.ServiceRegistration{
				ID: w.ID, ServiceName: w.ServiceName, Namespace: w.Namespace, NodeID: w.NodeID, Datacenter: w.Datacenter,
				JobID: w.JobID, AllocID: w.AllocID, Tags: w.Tags, Address: w.Address, Port: w.Port,
			})
		}
	}
	require.NotEmpty(t, registered)
	require.NoError(t, cp.RegisterServices(t.Context(), recorded.NodeID, registered))
	_, err := cp.FindServices(t.Context(), registered[0].Namespace, registered[0].ServiceName)
	require.NoError(t, err)
	require.NoError(t, cp.DeregisterServices(t.Context(), recorded.NodeID, []string{registered[0].ID}))
	by := structs.TaskIdentity{AllocID: registered[0].AllocID, Task: "t"}
	for _, x := range recorded.Of(s.heard, recorded.ByNode, "Variables.Read") {
		var args struct{ Path string }
		as(t, x.Args, &args)
		v, err := cp.TaskVariable(t.Context(), by, "", args.Path)
		require.NoError(t, err)
		require.Equal(t, "value", v.Items["k"])
	}
	for _, x := range recorded.Of(s.heard, recorded.ByNode, "Alloc.SignIdentities") {
		var args struct{ Identities []*wireIdentity }
		as(t, x.Args, &args)
		for _, i := range args.Identities {
			token, err := cp.SignIdentity(t.Context(), structs.TaskIdentity{AllocID: i.AllocID, Task: i.WorkloadIdentifier}, i.IdentityName)
			require.NoError(t, err)
			require.NotEmpty(t, token.JWT)
			require.False(t, token.Expires.IsZero())
		}
	}
}

// as reads a value of a recording as one of the wire's.
func as(t *testing.T, from, to any) {
	t.Helper()
	raw, err := wire.Marshal(from)
	require.NoError(t, err)
	require.NoError(t, wire.Unmarshal(raw, to))
}

// says wants what the node has said to be what Nomad's own client said once: also the values, where they are
// not the node's own.
func (s *replay) says(t *testing.T) {
	t.Helper()
	own := map[string]bool{"MinQueryIndex": true, "MaxQueryTime": true, "AllowStale": true, "AuthToken": true, "AllocIDs": true}
	for _, x := range s.sent {
		if x.Method == "Node.Register" {
			continue // which is of another node
		}
		if fields := x.Args.(map[string]any); x.Method == "Alloc.SignIdentities" {
			delete(fields, "Namespace") // it is that of the allocations
		}
		var why []string
		heard := recorded.Of(s.heard, recorded.ByNode, x.Method)
		require.True(t, slices.ContainsFunc(heard, func(their recorded.Exchange) bool {
			at := recorded.Within(x.Args, their.Args, own)
			why = append(why, at)
			return at == ""
		}), "%s %v: Nomad's own client has never said that: %q", x.Method, x.Args, why)
	}
}

// Recordings have no secret and nothing of the machine that they were made on.
func TestRecordingsAreScrubbed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, recorded.Leftovers(string(b)), file)
	}
}
