package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/certtest"
)

// lines are what a logger was told.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func logged(level hclog.Level) (*lines, hclog.Logger) {
	l := &lines{}
	return l, hclog.New(&hclog.LoggerOptions{Output: l, Level: level})
}

// serveConns has a function do what a server does with each connection, and tells of each; without one
// nothing listens at the address.
func serveConns(t *testing.T, serve func(net.Conn)) (address string, conns chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conns = make(chan struct{}, 100)
	if serve == nil {
		require.NoError(t, l.Close())
		return l.Addr().String(), conns
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns <- struct{}{}
			running.Go(func() { serve(conn); _ = conn.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String(), conns
}

// speaking is a server of a handler.
func speaking(o wire.Options) func(net.Conn) {
	return func(conn net.Conn) {
		if session, err := wire.Accept(context.Background(), conn, o); err == nil {
			<-session.Done()
			session.Close()
		}
	}
}

// saying answers everything with an error.
func saying(text string) func(net.Conn) {
	return speaking(wire.Options{Handler: &wire.Handler{Call: func(context.Context, string, func(any) error) (any, error) {
		return nil, errors.New(text)
	}}})
}

// garbling answers with what is none of the protocol.
func garbling(conn net.Conn) {
	_, _ = io.ReadFull(conn, make([]byte, 1))
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	mux, err := yamux.Server(conn, c)
	if err != nil {
		return
	}
	defer func() { _ = mux.Close() }()
	if st, err := mux.AcceptStream(); err == nil {
		_, _ = st.Write([]byte{0xc1})
	}
	<-mux.CloseChan()
}

// secured are the certificates of a test: of two authorities, of which the node knows one.
type secured struct {
	known, other *certtest.Authority
	later        time.Duration // by which the node's clock goes before
}

func (s *secured) pair(t *testing.T, of *certtest.Authority, name string) tls.Certificate {
	t.Helper()
	cert, key := of.Write(t, t.TempDir(), name)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	return pair
}

func (s *secured) pool(t *testing.T) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(s.known.File(t))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	return pool
}

func (s *secured) now() time.Time { return time.Now().Add(s.later) }

// node is what the node has.
func (s *secured) node(t *testing.T, own ...tls.Certificate) func() (*tls.Config, error) {
	t.Helper()
	c := &tls.Config{ServerName: "server.global.nomad", RootCAs: s.pool(t), Certificates: own, Time: s.now}
	return func() (*tls.Config, error) { return c, nil }
}

// server answers whatever it is asked, by TLS.
func (s *secured) server(c *tls.Config) func(net.Conn) {
	return speaking(wire.Options{TLS: c, Handler: &wire.Handler{Call: func(context.Context, string, func(any) error) (any, error) { return nil, nil }}})
}

func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestWhyAServerIsOfNoUseIsToldOnce(t *testing.T) {
	s := &secured{known: certtest.NewAuthority(t), other: certtest.NewAuthority(t)}
	late := &secured{known: s.known, later: 48 * time.Hour}
	good := s.pair(t, s.known, "server.global.nomad")
	for name, c := range map[string]struct {
		serve     func(net.Conn) // nil: nothing listens
		tls       func() (*tls.Config, error)
		clock     func() time.Time
		resolve   func(context.Context, string) ([]string, error)
		undialled bool
		patience  time.Duration
		want      []string // in the one line
	}{
		"another region": {
			serve: saying("No path to region"),
			want:  []string{`it is not of region \"global\"`, `remedy="set region to that of the servers`},
		},
		"no leader": {
			serve: saying("No cluster leader"),
			want:  []string{"the servers have no leader (No cluster leader)", "more than half of the servers"},
		},
		"an old server": {
			serve: saying("rpc: can't find method Status.Leader"),
			want:  []string{"can't find method Status.Leader", "this node needs Nomad 1.6 or newer"},
		},
		"a server of something newer": {serve: garbling, want: []string{"not understood", "this node knows Nomad 1.6 to 2.0"}},
		"a server that reaches no other": {
			serve: saying("rpc error: failed to get conn"),
			want:  []string{"failed to get conn", "look at the log of the server"},
		},
		"SSH": {
			serve: func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.6\r\n"); silent(conn) },
			want:  []string{`it answers \"SSH-2.0-OpenSSH_9.6\r\n\"`, "which is 4647 unless it says otherwise"},
		},
		"HTTP": {
			serve: func(conn net.Conn) {
				_, _ = io.ReadFull(conn, make([]byte, 1))
				_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
				silent(conn)
			},
			want: []string{`it answers \"HTTP/1.1 400 Bad Request`, "4646 is that of its HTTP API"},
		},
		"silence":     {serve: silent, patience: 200 * time.Millisecond, want: []string{"it takes the connection and does not answer", "4647"}},
		"it hangs up": {serve: func(net.Conn) {}, want: []string{"it closes the connection", "set tls { rpc = true } where the servers want TLS"}},
		"nothing":     {want: []string{"it cannot be reached: ", "connection refused", "look at the server, at the network to it, and at client.servers"}},
		"no such name": {
			resolve: func(_ context.Context, host string) ([]string, error) {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			},
			undialled: true,
			want:      []string{"its name is not found: lookup 127.0.0.1: no such host", "name servers of this machine"},
		},
		"TLS is wanted": {
			serve: s.server(&tls.Config{Certificates: []tls.Certificate{good}}),
			want:  []string{"it closes the connection", "set tls { rpc = true }"},
		},
		"TLS is not there": {
			serve: saying("x"), tls: s.node(t),
			want: []string{"it closes the connection", "have the servers use TLS", "client.global.nomad"},
		},
		"SSH where TLS is wanted": {
			serve: func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.6\r\n"); silent(conn) }, tls: s.node(t),
			want: []string{`it answers \"SSH-2\", which is no TLS`, "4647"},
		},
		"an unknown authority": {
			serve: s.server(&tls.Config{Certificates: []tls.Certificate{s.pair(t, s.other, "server.global.nomad")}}), tls: s.node(t),
			want: []string{"its certificate is of an authority that ca_file does not have", "into ca_file of the block tls"},
		},
		"a certificate for another": {
			serve: s.server(&tls.Config{Certificates: []tls.Certificate{s.pair(t, s.known, "server.other.nomad")}}), tls: s.node(t),
			want: []string{"its certificate is not for server.global.nomad", "verify_server_hostname"},
		},
		"the server's certificate has expired": {
			serve: s.server(&tls.Config{Certificates: []tls.Certificate{good}}), tls: late.node(t), clock: late.now,
			want: []string{
				"server: the certificate is valid from " + inUTC(good.Leaf.NotBefore) + " to " + inUTC(good.Leaf.NotAfter) + ", and it is 20",
				"set the clock of this machine if it is wrong: timedatectl set-ntp true",
			},
		},
		"our certificate has expired": {
			serve: silent, tls: late.node(t, good), clock: late.now, undialled: true,
			want: []string{"tls: cert_file: the certificate is valid from", "to " + inUTC(good.Leaf.NotAfter), "UTC now", "renew it"},
		},
		"our certificate is not known there": {
			serve: s.server(&tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.pool(t)}),
			tls:   s.node(t, s.pair(t, s.other, "client.global.nomad")),
			want:  []string{"it refuses the certificate of this node (tls: ", "nomad tls cert create -client"},
		},
		"files that cannot be read": {
			serve: silent, tls: func() (*tls.Config, error) { return nil, errors.New("ca_file: /x has no certificate in PEM") }, undialled: true,
			want: []string{"tls: ca_file: /x has no certificate in PEM", "mend the files of the block tls"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, conns := serveConns(t, c.serve)
			said, logger := logged(hclog.Info)
			tries := make(chan struct{}, 100)
			resolve := c.resolve
			if resolve == nil {
				resolve = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
			}
			cp := joinWith(t, Config{
				Servers: []string{address}, Logger: logger, TLS: c.tls,
				timing: timing{patience: cmp.Or(c.patience, time.Minute), clock: c.clock, resolve: func(ctx context.Context, host string) ([]string, error) {
					tries <- struct{}{}
					return resolve(ctx, host)
				}},
			})
			for range 3 { // the third begins after the second has told
				<-tries
			}
			told := said.with("[WARN]")
			require.Len(t, told, 1)
			for _, want := range append(c.want, "server="+address) {
				require.Contains(t, told[0], want)
			}
			require.Empty(t, said.with("connected to a server"))
			require.Equal(t, c.undialled || c.serve == nil, len(conns) == 0)
			is := cp.Trouble()
			require.NotNil(t, is)
			require.Contains(t, is.Text, "no server of the cluster answers (")
			require.NotEmpty(t, is.Remedy)
			require.NotContains(t, is.Text, address, "who asks for health need not know it")
		})
	}
}
