package recorded

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
)

type question struct {
	Region, AuthToken string
	At                time.Time
	Count             int
	Share             float64
	Raw               []byte
	List              []string
}

// TestATapHearsBothSides has a node and a server ask each other through a tap.
func TestATapHearsBothSides(t *testing.T) {
	var tap Tap
	fromNode, fromServer := tap.Connection()
	node, server := net.Pipe()
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(server, io.TeeReader(near, fromNode)) }()
	go func() { _, _ = io.Copy(near, io.TeeReader(server, fromServer)) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { // wire dials addresses
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(far, conn); _ = far.Close() }()
		_, _ = io.Copy(conn, far)
	}()
	handler := &wire.Handler{
		Call: func(_ context.Context, method string, decode func(any) error) (any, error) {
			var q question
			if err := decode(&q); err != nil || q.Count == 0 {
				return nil, wire.ErrNoMethod
			}
			return question{Region: method}, nil
		},
		Streams: func(string) bool { return true },
		Stream: func(_ context.Context, _ string, _ func(any) error, st *wire.Stream) error {
			return st.Send([]byte("frame"))
		},
	}
	accepted := make(chan *wire.Session)
	go func() {
		s, err := wire.Accept(t.Context(), node, wire.Options{Handler: handler})
		if err == nil {
			accepted <- s
		}
	}()
	ours, err := wire.Dial(t.Context(), l.Addr().String(), wire.Options{Handler: handler})
	require.NoError(t, err)
	asked := question{Region: "global", Count: 3, Share: 0.5, At: time.Unix(1, 0).UTC(), Raw: []byte{0xff, 0}, List: []string{"a"}}
	require.NoError(t, ours.Call(t.Context(), "Node.Register", asked, nil))
	require.Error(t, ours.Call(t.Context(), "Node.None", question{}, nil))
	theirs := <-accepted
	require.NoError(t, theirs.Call(t.Context(), "Allocations.Stats", asked, nil))
	st, err := theirs.Open(t.Context(), "FileSystem.Logs", asked)
	require.NoError(t, err)
	_, err = st.Receive()
	require.NoError(t, err)
	st.Close()
	ours.Close()
	theirs.Close()

	list, err := tap.Exchanges()
	require.NoError(t, err)
	require.Len(t, list, 4)
	one := Of(list, ByNode, "Node.Register")[0]
	require.Equal(t, "Node.Register", one.Reply.(map[string]any)["Region"])
	require.Equal(t, "rpc: can't find method Node.None", Of(list, ByNode, "Node.None")[0].Error)
	require.Len(t, Of(list, ByServer, "Allocations.Stats"), 1)
	require.NotEmpty(t, Of(list, ByServer, "FileSystem.Logs")[0].Frames)

	file := filepath.Join(t.TempDir(), "nomad.jsonl")
	require.NoError(t, Write(file, list))
	again, err := Read(file)
	require.NoError(t, err)
	require.Empty(t, CompareAll(list, again))
	for i := range list {
		require.Empty(t, Within(again[i].Args, list[i].Args, nil))
		require.Empty(t, Within(list[i].Args, again[i].Args, nil))
	}
}

func TestScrub(t *testing.T) {
	const id, secret, other = "6f1c2f0e-1111-4222-8333-abcdefabcdef", "7f1c2f0e-1111-4222-8333-abcdefabcdef", "8f1c2f0e-1111-4222-8333-abcdefabcdef"
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	at, err := time.Now().MarshalBinary()
	require.NoError(t, err)
	list := Scrub([]Exchange{
		{By: ByNode, Method: "Node.Register", Args: map[string]any{"Node": map[string]any{
			"ID": id, "SecretID": secret, "HTTPAddr": "10.1.2.3:4646", "Name": "machine-7", "MAC": "0a:1b:2c:3d:4e:5f",
			"Attributes": map[string]any{"kernel.name": "linux", "cpu.modelname": "rare"}, "StatusUpdatedAt": time.Now().UnixNano(),
		}}},
		{By: ByNode, Method: "Alloc.GetAllocs", Args: map[string]any{"AuthToken": jwt, "IDs": []any{other, secret}}, Error: "no file /tmp/x/y of " + other,
			Reply: map[string]any{"At": string(at), "Address": "fe80::1", "MigrateTokens": map[string]any{other: "c2Vj"}, "Key": strings.Repeat("k", 50)}},
		{By: ByServer, Method: "ClientStats.Stats", Reply: map[string]any{"Since": int64(1795836032), "Until": uint64(1795836032), "Count": int64(1595836032),
			"HostStats": map[string]any{"Uptime": int64(1913), "DeviceStats": nil, "CPU": []any{
				map[string]any{"CPU": "cpu0", "Idle": 12.5, "Model": ""}, map[string]any{"CPU": "cpu1", "Idle": 2.5, "Model": ""},
			}}}},
	}, "machine-7")
	node := list[0].Args.(map[string]any)["Node"].(map[string]any)
	require.Equal(t, map[string]any{
		"ID": NodeID, "SecretID": SecretID, "HTTPAddr": "192.0.2.1:4646", "Name": "host", "MAC": "00:00:5e:00:53:01",
		"Attributes": map[string]any{"kernel.name": "linux", "cpu.modelname": "scrubbed"}, "StatusUpdatedAt": fixedTime.UnixNano(),
	}, node)
	fixed, err := fixedTime.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, map[string]any{"AuthToken": "token-1", "IDs": []any{fixedID(3), SecretID}}, list[1].Args)
	require.Equal(t, "no file /data of "+fixedID(3), list[1].Error)
	require.Equal(t, map[string]any{
		"At": string(fixed), "Address": "2001:db8::1", "MigrateTokens": map[string]any{fixedID(3): "scrubbed"}, "Key": "scrubbed",
	}, list[1].Reply)
	require.Equal(t, map[string]any{"Since": fixedTime.Unix(), "Until": fixedTime.Unix(), "Count": int64(1595836032), "HostStats": map[string]any{
		"Uptime": int64(1), "DeviceStats": nil, "CPU": []any{map[string]any{"CPU": "scrubbed", "Idle": 1.0, "Model": ""}},
	}}, list[2].Reply)
	for _, secret := range []string{id, jwt, "10.1.2.3", "0a:1b:2c:3d:4e:5f", "/home/somebody", strings.Repeat("k", 50), "1795836032", "/dev/vda1", `"Uptime":1913`} {
		require.Equal(t, []string{secret}, Leftovers("a "+secret+" b"))
	}
	require.Empty(t, Leftovers(NodeID+" token-1 192.0.2.1:4647 00:00:5e:00:53:01 /data 1767323045"))
}

func TestCompare(t *testing.T) {
	theirs, ours := Fields{}, Fields{}
	theirs.Add(map[string]any{"ID": "a", "Zero": int64(0), "None": nil, "Old": map[string]any{"In": int64(1)}, "List": []any{map[string]any{"N": int64(1)}}, "Free": map[string]any{"k.1": "v"}})
	ours.Add(map[string]any{"ID": "b", "New": true, "None": "x", "List": []any{map[string]any{"N": "one"}}, "Free": map[string]any{"other": "w"}, "Absent": false})
	require.Equal(t, []Difference{
		{"List[].N", Type, "text instead of number"},
		{"New", Unknown, "it is bool here: true"},
		{"None", Unknown, "it is text here: x"},
		{"Old", Missing, "it is map there: "},
	}, Compare(theirs, ours))
}
