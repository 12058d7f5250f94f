package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns both sides of a connection: a node's, and a simulated server's.
func pair(t *testing.T, node, server *Handler) (ofNode, ofServer *Session) {
	t.Helper()
	return pairWith(t, Options{Handler: node}, Options{Handler: server})
}

// pairWith is pair with more options.
func pairWith(t *testing.T, node, server Options) (ofNode, ofServer *Session) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		conn, err := l.Accept()
		if err == nil {
			ofServer, err = Accept(t.Context(), conn, server)
		}
		if err != nil {
			t.Error(err)
		}
	})
	ofNode, err = Dial(t.Context(), l.Addr().String(), node)
	require.NoError(t, err)
	accepting.Wait()
	t.Cleanup(func() { ofNode.Close(); ofServer.Close() })
	return ofNode, ofServer
}

type echo struct {
	Text  string
	Times int
}

// echoing answers as it is asked.
var echoing = &Handler{
	Call: func(ctx context.Context, method string, decode func(any) error) (any, error) {
		var args echo
		if err := decode(&args); err != nil {
			return nil, err
		}
		switch method {
		case "Echo.Say":
			return args, nil
		case "Echo.Refuse":
			return nil, &CodedError{404, "no such text"}
		case "Echo.Fail":
			return nil, errors.New("node not found")
		case "Echo.Wait":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, ErrNoMethod
	},
	Streams: func(method string) bool { return strings.HasPrefix(method, "Echo.") },
	Stream: func(ctx context.Context, method string, decode func(any) error, st *Stream) error {
		var args echo
		if err := decode(&args); err != nil {
			return err
		}
		switch method {
		case "Echo.Say":
			return st.Send([]byte(strings.Repeat(args.Text, args.Times)))
		case "Echo.Refuse":
			return &CodedError{403, "Permission denied"}
		case "Echo.Follow":
			ctx, cancel := st.Gone(ctx)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		for { // Echo.Talk
			var next echo
			if err := st.Decode(&next); err != nil {
				return nil
			}
			if err := st.Send([]byte(next.Text)); err != nil {
				return err
			}
		}
	},
}

func TestBothSidesCallEachOther(t *testing.T) {
	node, server := pair(t, echoing, echoing)
	for _, side := range []*Session{node, server} {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				var got echo
				if err := side.Call(t.Context(), "Echo.Say", echo{"a", 1}, &got); err != nil || got.Text != "a" {
					t.Error(got, err)
				}
			})
		}
		all.Wait()
		require.EqualError(t, side.Call(t.Context(), "Echo.Refuse", echo{}, nil), "Echo.Refuse: RPC Error:: 404,no such text")
		require.True(t, Says(side.Call(t.Context(), "Echo.Fail", echo{}, nil), "node not found"))
		require.EqualError(t, side.Call(t.Context(), "No.Such", echo{}, nil), "No.Such: rpc: can't find method No.Such")
		require.NoError(t, side.Call(t.Context(), "Echo.Say", echo{}, nil), "the connection is as good as before")
	}
	require.LessOrEqual(t, len(node.idle), maxIdle)
}

func TestACallEndsWithItsContextAndWithTheSession(t *testing.T) {
	node, server := pair(t, nil, echoing)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, node.Call(ctx, "Echo.Wait", echo{}, nil), context.Canceled)
	require.NoError(t, node.Call(t.Context(), "Echo.Say", echo{}, nil))
	failed := make(chan error, 1)
	go func() { failed <- node.Call(t.Context(), "Echo.Wait", echo{}, nil) }()
	server.Close()
	require.Error(t, <-failed)
	<-node.Done()
	require.ErrorIs(t, node.Call(t.Context(), "Echo.Say", echo{}, nil), ErrClosed)
}

func TestStreamingRequests(t *testing.T) {
	_, server := pair(t, echoing, nil)
	st, err := server.Open(t.Context(), "Echo.Say", echo{"0123456789", 20_000})
	require.NoError(t, err)
	got := 0
	for {
		part, err := st.Receive()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		require.LessOrEqual(t, len(part), MaxPayload)
		got += len(part)
	}
	require.Equal(t, 200_000, got)
	st.Close()

	_, err = server.Open(t.Context(), "No.Such", echo{})
	require.EqualError(t, err, "No.Such: rpc: can't find method No.Such")

	st, err = server.Open(t.Context(), "Echo.Refuse", echo{})
	require.NoError(t, err)
	_, err = st.Receive()
	require.True(t, Says(err, "Permission denied"))
	st.Close()

	st, err = server.Open(t.Context(), "Echo.Talk", echo{})
	require.NoError(t, err)
	for _, text := range []string{"one", "two"} {
		require.NoError(t, st.SendValue(echo{Text: text}))
		answer, err := st.Receive()
		require.NoError(t, err)
		require.Equal(t, text, string(answer))
	}
	st.Close()

	st, err = server.Open(t.Context(), "Echo.Follow", echo{})
	require.NoError(t, err)
	st.Close() // which the session's end waits for
}

// TestTheFirstBytesOfASession are those of a recorded client.
func TestTheFirstBytesOfASession(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s, err := Dial(t.Context(), l.Addr().String(), Options{})
	require.NoError(t, err)
	defer s.Close()
	conn, err := l.Accept()
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		_ = s.Call(t.Context(), "Status.Ping", struct{}{}, nil)
		close(ended)
	}()
	want := "06" + "000100010000000100000000" + // a stream
		"000000000000000100000001" + "01" + // for requests
		"000000000000000100000021" + "82a353657101ad536572766963654d6574686f64ab5374617475732e50696e6780"
	got := make([]byte, len(want)/2)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, hex.EncodeToString(got))
	require.NoError(t, conn.Close())
	<-ended
}

func TestATimeIsFifteenBytes(t *testing.T) {
	raw, err := Marshal(struct{ At time.Time }{time.Unix(0, 0).UTC()})
	require.NoError(t, err)
	require.Equal(t, "81a24174af010000000e7791f70000000000ffff", hex.EncodeToString(raw))
	var got struct{ At time.Time }
	require.NoError(t, Unmarshal(raw, &got))
	require.True(t, got.At.Equal(time.Unix(0, 0)))
}

func TestBytesAndStringsAreTheSame(t *testing.T) {
	raw, err := Marshal(map[string]any{"A": []byte("x"), "B": strings.Repeat("b", 40)})
	require.NoError(t, err)
	require.NotContains(t, string(raw), "\xd9", "an old reader knows no short strings")
	require.NotContains(t, string(raw), "\xc4", "nor bytes")
	for _, sent := range []string{"81a141c40178", "81a141a178", "81a141d90178"} {
		b, err := hex.DecodeString(sent)
		require.NoError(t, err)
		var asBytes struct{ A []byte }
		var asText struct{ A string }
		require.NoError(t, Unmarshal(b, &asBytes), sent)
		require.NoError(t, Unmarshal(b, &asText), sent)
		require.Equal(t, "x", string(asBytes.A)+"", sent)
		require.Equal(t, "x", asText.A, sent)
	}
}

// nested is a list in a list, so many deep.
func nested(depth int) []byte {
	return append(bytes.Repeat([]byte{0x91}, depth), 0xc0)
}

func TestTheBoundsOfAValue(t *testing.T) {
	list := func(n int) []byte {
		raw := binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n))
		return append(raw, make([]byte, n)...)
	}
	text := func(n int) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0xdb}, uint32(n)), make([]byte, n)...)
	}
	for _, c := range []struct {
		name string
		raw  []byte
		ok   bool
	}{
		{"as deep as may be", nested(maxDepth), true},
		{"too deep", nested(maxDepth + 1), false},
		{"as many as may be", list(MaxAsk/perValue - 1), true},
		{"too many", list(MaxAsk / perValue), false},
		{"as long as may be", text(MaxAsk - 5), true},
		{"too long", text(MaxAsk - 4), false},
	} {
		_, err := readValue(bufio.NewReader(bytes.NewReader(c.raw)), MaxAsk)
		if c.ok {
			require.NoError(t, err, c.name)
			var v any
			require.NoError(t, decode(c.raw, &v), c.name)
		} else {
			require.ErrorIs(t, err, ErrGarbage, c.name)
		}
	}
	_, err := readValue(bufio.NewReader(bytes.NewReader([]byte{0xdb, 0, 0x30, 0, 0, 'x'})), MaxAsk)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "what was announced did not come")
	require.ErrorIs(t, Unmarshal([]byte{0xc0, 0xc0}, new(any)), ErrGarbage)
}

func TestGarbageCostsTheConnection(t *testing.T) {
	for name, sent := range map[string][]byte{
		"no stream that is known":       {0x77},
		"a request that is no value":    {byteRPC, 0xc1},
		"a request that is no map":      {byteRPC, 0x93, 1, 2, 3, 0x80},
		"a request that is too deep":    append([]byte{byteRPC, 0x80}, nested(maxDepth+1)...),
		"a streaming one without a map": {byteStreaming, 0xa1, 'x'},
	} {
		node, server := pair(t, echoing, nil)
		conn, err := server.mux.OpenStream()
		require.NoError(t, err)
		_, _ = conn.Write(sent) // the other side may hang up meanwhile
		select {
		case <-node.Done():
		case <-time.After(time.Minute):
			require.Fail(t, "the connection is still there", name)
		}
	}
}

func TestAGarbledAnswerCostsTheConnection(t *testing.T) {
	for name, sent := range map[string][]byte{
		"no value":                {0xc1},
		"another request's":       []byte("\x82\xa5Error\xa0\xa3Seq\x09\x80"),
		"a header that is a list": {0x91, 0x91, 0x80},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var serving sync.WaitGroup
		serving.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 1))
			mux, _ := yamux.Server(conn, muxConfig(nil))
			st, err := mux.AcceptStream()
			if err == nil {
				_, _ = st.Write(sent)
			}
			<-mux.CloseChan()
		})
		s, err := Dial(t.Context(), l.Addr().String(), Options{})
		require.NoError(t, err)
		require.ErrorIs(t, s.Call(t.Context(), "Status.Ping", struct{}{}, &echo{}), ErrGarbage, name)
		<-s.Done()
		s.Close()
		serving.Wait()
		l.Close()
	}
}

func TestNoMoreStreamsAreServedThanMayBe(t *testing.T) {
	release := make(chan struct{})
	node, server := pair(t, &Handler{Call: func(context.Context, string, func(any) error) (any, error) {
		<-release
		return nil, nil
	}}, nil)
	answers := make(chan error, MaxServed)
	for range MaxServed {
		go func() { answers <- server.Call(t.Context(), "A.B", struct{}{}, nil) }()
	}
	require.Eventually(t, func() bool { return len(node.places) == MaxServed }, time.Minute, time.Millisecond)
	require.Error(t, server.Call(t.Context(), "A.B", struct{}{}, nil), "one too many")
	close(release)
	for range MaxServed {
		require.NoError(t, <-answers)
	}
	require.NoError(t, server.Call(t.Context(), "A.B", struct{}{}, nil))
}

// FuzzValue reads what a hostile peer may send: nothing panics, what is within the bounds is
// measured as it is, and what is read can be read again.
func FuzzValue(f *testing.F) {
	f.Add([]byte("\x82\xa3Seq\x01\xadServiceMethod\xabStatus.Ping"))
	f.Add(nested(40))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x81, 0xa2, 'A', 't', 0xaf, 1, 0, 0, 0, 14, 0x77, 0x91, 0xf7, 0, 0, 0, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		end, err := measure(raw, MaxAsk)
		if err != nil {
			return
		}
		require.LessOrEqual(t, end, len(raw))
		var header responseHeader
		_ = decode(raw[:end], &header)
		var timed struct {
			At    *time.Time
			Parts map[string][]echo
			Free  map[string]any
		}
		_ = decode(raw[:end], &timed)
		var v any
		if decode(raw[:end], &v) == nil {
			if again, err := Marshal(v); err == nil {
				_, err = measure(again, MaxMessage)
				require.NoError(t, err)
			}
		}
	})
}
