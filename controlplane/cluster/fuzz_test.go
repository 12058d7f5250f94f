package cluster

import (
	"net/url"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
)

// offline is a control plane that talks with nobody.
func offline() *ControlPlane {
	none := hclog.NewNullLogger()
	return &ControlPlane{
		logger: none, token: &token{}, pulled: newPulled(), remembered: maxRemembered,
		servers: &servers{configured: []string{"a:1"}, logger: none, timing: timing{}.withDefaults()},
	}
}

// FuzzReply reads what a hostile server may answer the node: nothing panics, and what is kept of it is
// within the bounds.
func FuzzReply(f *testing.F) {
	token := jwt(`{"iat": 1, "exp": 2}`)
	for _, seed := range []any{
		nodeReply{HeartbeatTTL: time.Hour, Servers: []serverInfo{{"192.0.2.1:4647"}, {"x"}}, SignedIdentity: &token, Index: 7},
		wireAssigned{map[string]uint64{allocID(1): 9, "../x": 1}, map[string]string{allocID(1): "t"}, 1 << 63},
		map[string]any{"Alloc": wireElsewhere{allocID(1), nodeID, "lost"}, "Index": 5},
		map[string]any{"Node": wireNeighbour{"n", "192.0.2.1:4646", true}},
		map[string]any{"Node": map[string]any{"Events": []wireNodeEvent{{Message: "m", Timestamp: time.Unix(1, 0)}}}},
		map[string]any{"SignedIdentities": []*wireIdentity{nil, {JWT: "j"}}, "Rejections": []any{nil}},
		map[string]any{"Services": []*wireService{nil, {ID: "i", Port: 1 << 40}}},
		map[string]any{"Policies": map[string]any{"p": nil}, "ACLRoles": map[string]any{"r": nil}},
	} {
		raw, err := wire.Marshal(seed)
		require.NoError(f, err)
		f.Add(raw)
	}
	stored, err := allocOf(placed(allocID(1)), nodeID)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte) {
		cp := offline()
		cp.pulled.know(structs.KnownAllocation{Allocation: stored})
		var reply nodeReply
		if wire.Unmarshal(raw, &reply) == nil {
			cp.take(reply)
			require.LessOrEqual(t, len(cp.servers.list()), 1+maxServers)
			for _, address := range cp.servers.list() {
				require.True(t, isAddress(address))
			}
			require.LessOrEqual(t, len(cp.token.get()), maxToken)
			require.Positive(t, bounded(reply.HeartbeatTTL))
		}
		var told wireAssigned
		if wire.Unmarshal(raw, &told) == nil {
			for _, all := range []bool{true, false} {
				cp.changed(told.Allocs, all)
				cp.takeTokens(told.MigrateTokens)
				cp.vanish(told.Allocs, all)
				cp.forget(all)
			}
		}
		var node struct{ Node *wireNeighbour }
		if wire.Unmarshal(raw, &node) == nil && node.Node != nil {
			if from, err := node.Node.disk(allocID(1)); err == nil {
				again, err := url.Parse(from.String())
				if err == nil { // otherwise it is asked nothing
					require.Equal(t, "/v1/client/allocation/"+allocID(1)+"/snapshot", again.Path)
				}
			}
		}
		var events struct {
			Node *struct{ Events []wireNodeEvent }
		}
		if wire.Unmarshal(raw, &events) == nil && events.Node != nil {
			cp.events.told(events.Node.Events, nil)
		}
		for _, into := range []any{
			&struct{ Alloc *wireElsewhere }{}, &wireIdentified{}, &wirePolicies{}, &struct{ Services []*wireService }{},
			&struct{ Data []*wireVariable }{}, &struct{ SignedIdentities, Rejections []*wireIdentity }{},
		} {
			_ = wire.Unmarshal(raw, into) // it does not panic
		}
	})
}

// FuzzAsked reads what a hostile server may answer to a question that is passed on, as the API's own
// types have it.
func FuzzAsked(f *testing.F) {
	for _, seed := range []any{
		map[string]any{"Node": nodeOf(described(), secretID), "Job": placed(allocID(1)).Job, "Allocations": []any{placed(allocID(1)), nil}, "Index": 3},
		[]any{1, nil}, "text",
	} {
		raw, err := wire.Marshal(seed)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		for _, into := range []any{
			&struct{ Node *nomad.Node }{}, &struct{ Job *nomad.Job }{}, &struct{ Allocations []*nomad.AllocationListStub }{}, &map[string]any{},
		} {
			_ = wire.Raw(raw).Decode(into) // it does not panic
		}
	})
}

func FuzzRefusal(f *testing.F) {
	for _, text := range []string{"RPC Error:: 404,no such thing", "rpc error: Permission denied", "RPC Error:: 999999999999,x", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var refused *Refused
		require.ErrorAs(t, refusal(t.Context(), &wire.RemoteError{Method: "A.B", Text: text}), &refused)
		require.GreaterOrEqual(t, refused.Status, 400)
		require.Less(t, refused.Status, 1000)
	})
}
