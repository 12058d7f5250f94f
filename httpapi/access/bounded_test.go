package access

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// measured returns what bounds tell of themselves, by name and label.
func measured(t *testing.T, b *Bounds) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // compares what is described with what comes
	require.NoError(t, registry.Register(b))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "wasmnode_http_")
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func TestEachKindOfRequestsIsBounded(t *testing.T) {
	kinds := map[Kind]*http.Request{
		Reads: httptest.NewRequest(http.MethodGet, "/", nil), Bodies: httptest.NewRequest(http.MethodPut, "/", strings.NewReader("{}")),
		Streams: httptest.NewRequest(http.MethodGet, "/?index=1", nil),
	}
	synctest.Test(t, func(t *testing.T) {
		b := NewBounds(Limits{Reads: 1, Bodies: 1, Streams: 1, Patience: time.Second, Body: time.Minute})
		require.Equal(t, time.Minute, b.BodyTimeout())
		leaves := map[Kind]func(){}
		for kind, r := range kinds {
			seat, err := b.Enter(r)
			require.NoError(t, err, "others do not keep %s out", kind)
			leaves[kind] = seat.Leave
		}
		for kind, r := range kinds {
			require.EqualValues(t, 1, measured(t, b)["in_flight "+string(kind)])
			began := time.Now()
			_, err := b.Enter(r)
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, http.StatusTooManyRequests, refusal.Status)
			require.Equal(t, string(kind), refusal.Reason)
			require.Equal(t, time.Second, time.Since(began), "it waits as long as it is to")

			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err = b.Enter(r.WithContext(ctx))
			cancel()
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, time.Second+time.Millisecond, time.Since(began), "who has gone waits no more")

			time.AfterFunc(time.Second/2, leaves[kind])
			seat, err := b.Enter(r)
			require.NoError(t, err, "the place of one that ends")
			seat.Leave()
			require.Zero(t, measured(t, b)["in_flight "+string(kind)])
		}
	})
}

// accepted is a listener of connections that are there already.
type accepted struct {
	net.Listener
	conns []*closing
}

func (l *accepted) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

// closing is a connection that counts how often it is closed.
type closing struct {
	net.Conn
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return net.ErrClosed
}

func TestConnectionsAboveTheLimitAreToldOrClosed(t *testing.T) {
	const limit = 2
	b := NewBounds(Limits{Reads: 1, Bodies: 1, Streams: 1, Connections: limit})
	all := make([]*closing, limit+extraConnections+3)
	for i := range all {
		all[i] = &closing{}
	}
	l := b.Listener(&accepted{conns: all[:limit+extraConnections]})
	open := make([]net.Conn, limit+extraConnections)
	for i := range open {
		c, err := l.Accept()
		require.NoError(t, err)
		open[i] = c
		for _, seen := range []net.Conn{c, tls.Server(c, nil)} {
			ctx := ConnContext(t.Context(), seen)
			seat, err := b.Enter(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			if i < limit {
				require.NoError(t, err, "connection %d", i)
				seat.Leave()
				continue
			}
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal, "connection %d", i)
			require.Equal(t, "connections", refusal.Reason)
		}
	}
	_, err := l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.EqualValues(t, len(open), measured(t, b)["in_flight connections"])

	_, err = b.Listener(&accepted{conns: all[len(open):]}).Accept()
	require.ErrorIs(t, err, net.ErrClosed, "those above are not handed on")
	for _, c := range all[len(open):] {
		require.Equal(t, 1, c.closed)
	}
	require.EqualValues(t, 3, measured(t, b)["refused_total connections"])
	require.EqualValues(t, len(open), measured(t, b)["in_flight connections"])

	for range 2 {
		require.ErrorIs(t, open[0].Close(), net.ErrClosed)
	}
	require.EqualValues(t, len(open)-1, measured(t, b)["in_flight connections"], "closed twice, counted once")
	require.Same(t, t.Context(), ConnContext(t.Context(), &closing{}), "one that is not counted")
	b.HandshakeFailed()
	require.EqualValues(t, 1, measured(t, b)["handshakes_failed_total"])
}
