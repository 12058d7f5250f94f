package cluster

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestServersAreAskedOnBehalfOfACaller(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	float := 1.5
	cp := joinAnswering(t, func(_ context.Context, method string, decode func(any) error) (any, error) {
		var args struct {
			Region, AuthToken, Path string
			MaxQueryTime            time.Duration
		}
		if err := decode(&args); err != nil {
			return nil, err
		}
		if method != "Node.GetNode" {
			return nil, errors.New("other")
		}
		return map[string]any{
			"Index": 7, "Seen": args,
			"Node": map[string]any{
				"StatusUpdatedAt": 5, "Drivers": map[string]any{"d": struct{ UpdateTime time.Time }{at}},
				"NodeResources": map[string]any{"Devices": []any{map[string]any{"Attributes": map[string]any{"a": struct{ Float *float64 }{&float}}}}},
			},
		}, nil
	})
	given := map[string]any{"Path": "p"}
	decode, done, err := cp.Ask(t.Context(), "Node.GetNode", "caller's", time.Second, given)
	require.NoError(t, err)
	defer done()
	require.Len(t, given, 1, "the caller's map is its own")
	var reply struct {
		Index uint64
		Seen  struct {
			Region, AuthToken, Path string
			MaxQueryTime            time.Duration
		}
		Node *nomad.Node
	}
	require.NoError(t, decode(&reply))
	require.Equal(t, uint64(7), reply.Index)
	require.Equal(t, "global", reply.Seen.Region)
	require.Equal(t, "caller's", reply.Seen.AuthToken)
	require.Equal(t, "p", reply.Seen.Path)
	require.Equal(t, time.Second, reply.Seen.MaxQueryTime)
	require.True(t, at.Equal(reply.Node.Drivers["d"].UpdateTime))
	require.Equal(t, 1.5, *reply.Node.NodeResources.Devices[0].Attributes["a"].FloatVal)

	_, _, err = cp.Ask(t.Context(), "Node.GetNode", "", 0, nil)
	require.NoError(t, err)
}

// joinAnswering is a control plane whose server answers what it is told to, and who leads.
func joinAnswering(t *testing.T, answer func(ctx context.Context, method string, decode func(any) error) (any, error)) *ControlPlane {
	t.Helper()
	address, _ := listen(t, wire.Options{Handler: &wire.Handler{Call: func(ctx context.Context, method string, decode func(any) error) (any, error) {
		if method == "Status.Leader" {
			return nil, nil
		}
		return answer(ctx, method, decode)
	}}})
	cp := join(t, address)
	_, err := cp.servers.await(t.Context(), nil)
	require.NoError(t, err)
	return cp
}

func TestRefusalsOfServersHaveAStatus(t *testing.T) {
	for text, want := range map[string]Refused{
		"RPC Error:: 404,no such thing":             {http.StatusNotFound, "no such thing"},
		"rpc error: RPC Error:: 400,two\nlines":     {http.StatusBadRequest, "two\nlines"},
		"RPC Error:: 200,well":                      {http.StatusInternalServerError, "RPC Error:: 200,well"},
		"rpc error: Permission denied":              {http.StatusForbidden, "Permission denied"},
		"ACL token not found":                       {http.StatusForbidden, "ACL token not found"},
		"Permission denied is not all that it says": {http.StatusInternalServerError, "Permission denied is not all that it says"},
	} {
		var got *Refused
		require.ErrorAs(t, refusal(t.Context(), &wire.RemoteError{Method: "X.Y", Text: text}), &got, text)
		require.Equal(t, want, *got, text)
		require.Equal(t, want.Status, got.HTTPStatus())
	}
	require.ErrorIs(t, refusal(t.Context(), wire.ErrClosed), errdefs.Unavailable)
	require.ErrorIs(t, refusal(t.Context(), errdefs.New(errdefs.PermissionDenied, "x")), errdefs.PermissionDenied)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, refusal(ended, wire.ErrClosed), context.Canceled)
}

// Questions of one kind keep nobody from another kind's, above all not from being known by a token.
func TestQuestionsAreBounded(t *testing.T) {
	cp := joinAnswering(t, func(context.Context, string, func(any) error) (any, error) { return map[string]any{}, nil })
	ask := func(wait time.Duration) error {
		_, done, err := cp.Ask(t.Context(), "X.Y", "", wait, nil)
		if err == nil {
			done()
		}
		return err
	}
	kinds := map[string]struct {
		places places
		ask    func() error
	}{
		"at once":   {cp.asked, func() error { return ask(0) }},
		"left open": {cp.leftOpen, func() error { return ask(time.Minute) }},
		"a token's": {cp.resolved, func() error { _, _, err := cp.TokenRules(t.Context(), "token"); return err }},
	}
	for full, kind := range kinds {
		var all []func()
		for range MaxAsked {
			done, err := kind.places.enter()
			require.NoError(t, err)
			all = append(all, done)
		}
		for name, other := range kinds {
			var got *Refused
			busy := errors.As(other.ask(), &got) && got.Status == http.StatusTooManyRequests
			require.Equal(t, name == full, busy, "%s, when all places of %s are taken", name, full)
		}
		for _, done := range all {
			done()
		}
	}
}

// An answer has its place until it is done with.
func TestAnAnswerHasItsPlaceUntilItIsRead(t *testing.T) {
	cp := joinAnswering(t, func(context.Context, string, func(any) error) (any, error) { return nil, nil })
	var all []func()
	for range MaxAsked {
		_, done, err := cp.Ask(t.Context(), "X.Y", "", 0, nil)
		require.NoError(t, err)
		all = append(all, done)
	}
	_, _, err := cp.Ask(t.Context(), "X.Y", "", 0, nil)
	require.ErrorAs(t, err, new(*Refused))
	all[0]()
	_, done, err := cp.Ask(t.Context(), "X.Y", "", 0, nil)
	require.NoError(t, err)
	done()
}

func TestWithoutAServerAQuestionFailsAtOnce(t *testing.T) {
	cp := join(t, "127.0.0.1:1")
	_, _, err := cp.Ask(t.Context(), "X.Y", "", time.Hour, nil)
	require.ErrorIs(t, err, errdefs.Unavailable)
	_, _, err = cp.TokenRules(t.Context(), "token")
	require.ErrorIs(t, err, errdefs.Unavailable)
	require.Equal(t, []string{"127.0.0.1:1"}, cp.Addresses())
}

func TestTheAllocationsOfANodeAreKnownWithWhatBecameOfThem(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	require.Empty(t, cp.KnownAllocations())
	s.change(allocID(1), func(*wireAlloc) {})
	_, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.NoError(t, cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{{ID: allocID(1), ClientStatus: structs.ClientRunning}}))
	list := cp.KnownAllocations()
	require.Len(t, list, 1)
	require.Equal(t, structs.ClientRunning, list[0].ClientStatus)
	require.Equal(t, cp.Allocation(allocID(1)), list[0])
	require.Nil(t, cp.Allocation(allocID(2)))
}
