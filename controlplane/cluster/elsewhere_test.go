package cluster

import (
	"archive/tar"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const otherNode = "7c1c3f4e-31c2-4dbb-8a8d-2f3f5a6b7c22"

// elsewhere tells of an allocation of another node, as Alloc.GetAlloc does.
func (s *server) elsewhere(ctx context.Context, a args) (any, error) {
	if err := s.await(ctx, a.MinQueryIndex); err != nil {
		return nil, err
	}
	type answer struct {
		Alloc *wireElsewhere
		Index uint64
	}
	if s.behind && a.AllowStale {
		return answer{nil, 1}, nil
	}
	return answer{s.others[a.AllocID], s.index}, nil
}

// is has an allocation of another node become something; empty: the servers forget it.
func (s *server) is(id, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others == nil {
		s.others = map[string]*wireElsewhere{}
	}
	if s.others[id] = (&wireElsewhere{id, otherNode, status}); status == "" {
		delete(s.others, id)
	}
	s.next()
}

// replacing is an allocation of the node that takes the place of another's.
func replacing(t *testing.T, s *server, cp *ControlPlane, token string) *structs.Allocation {
	t.Helper()
	id := allocID(1)
	s.mu.Lock()
	s.tokens = map[string]string{id: token}
	s.mu.Unlock()
	s.change(id, func(a *wireAlloc) { a.PreviousAllocation = allocID(50) })
	news, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	require.Len(t, news.Changed, 1)
	return news.Changed[0]
}

func TestAnAllocationOfAnotherNodeIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		steps []string
		told  bool
		node  string
	}{
		"it has ended":                         {[]string{"complete"}, false, otherNode},
		"it ends":                              {[]string{"running", "running", "failed"}, true, otherNode},
		"its node is lost":                     {[]string{"running", "lost"}, true, otherNode},
		"its node is not heard of":             {[]string{"running", "unknown"}, true, otherNode},
		"the servers forget it":                {[]string{"pending", ""}, true, ""},
		"the servers have forgotten it":        {[]string{""}, false, ""},
		"the servers do not tell":              {[]string{"refused: Permission denied"}, false, ""},
		"it is of a pool that is not seen":     {[]string{"refused: Unknown allocation \"x\""}, false, ""},
		"a server that is behind, or restored": {[]string{"running", "behind", "complete"}, true, otherNode},
		"an error that passes":                 {[]string{"refused: raft is busy", "complete"}, false, otherNode},
		"the leader is lost while it is asked": {[]string{"running", "refused: No cluster leader", "complete"}, true, otherNode},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			cp := join(t, s.address)
			registered(t, cp)
			of := replacing(t, s, cp, "")
			waits, asked := make(chan string, 2), 0
			type answer struct {
				node string
				err  error
			}
			done := make(chan answer, 1)
			step := func(status string) {
				if why, refused := strings.CutPrefix(status, "refused: "); refused {
					s.mu.Lock()
					s.fail["Alloc.GetAlloc"] = errors.New(why)
					s.next()
					s.mu.Unlock()
					return
				}
				if status == "behind" {
					s.mu.Lock()
					s.behind = true
					s.next()
					s.mu.Unlock()
					return
				}
				s.is(of.PreviousAllocation, status)
			}
			for i, status := range c.steps {
				step(status)
				if i == 0 { // it is asked for once something is known of it
					go func() {
						node, err := cp.AwaitEnd(t.Context(), of, of.PreviousAllocation, func(node string) { waits <- node })
						done <- answer{node, err}
					}()
				}
				if i < len(c.steps)-1 { // it asks again before anything changes
					asked++
					require.Eventually(t, func() bool { return s.called("Alloc.GetAlloc") > asked || asked == 1 && s.called("Alloc.GetAlloc") > 0 }, 30*time.Second, time.Millisecond)
				}
			}
			var got answer
			select {
			case got = <-done:
			case <-time.After(30 * time.Second):
				t.Fatal("it waits on")
			}
			require.NoError(t, got.err)
			require.Equal(t, c.node, got.node)
			if c.told {
				require.Equal(t, otherNode, <-waits)
			}
			require.Empty(t, waits, "it is told once")
		})
	}
}

func TestWaitingForAnAllocationOfAnotherNodeEndsWithItsContext(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	of := replacing(t, s, cp, "")
	s.is(of.PreviousAllocation, "running")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := cp.AwaitEnd(ctx, of, of.PreviousAllocation, func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	// Nor does it wait for servers that are not there.
	s.stop()
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = cp.AwaitEnd(ctx, of, of.PreviousAllocation, func(string) {})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// isAt has the servers know another node.
func (s *server) isAt(address string, secured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = map[string]map[string]any{otherNode: {"ID": otherNode, "Name": "other", "HTTPAddr": address, "TLSEnabled": secured}}
}

func TestTheDiskOfAnotherNodesAllocation(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address)
	registered(t, cp)
	of := replacing(t, s, cp, "token for it")
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Nomad-Token") != "token for it":
			http.Error(w, "Permission denied", http.StatusForbidden)
		case r.URL.Path != "/v1/client/allocation/"+of.PreviousAllocation+"/snapshot":
			http.Redirect(w, r, "/v1/client/allocation/"+of.PreviousAllocation+"/snapshot", http.StatusFound)
		default:
			archive := tar.NewWriter(w)
			_ = archive.WriteHeader(&tar.Header{Name: "alloc/data/f", Typeflag: tar.TypeReg, Size: 3})
			_, _ = io.WriteString(archive, "abc")
			_ = archive.Close()
		}
	})
	for _, secured := range []bool{false, true} {
		node := httptest.NewUnstartedServer(answer)
		if secured {
			node.StartTLS()
			cp.cfg.NodeTLS = func() (*tls.Config, error) {
				return node.Client().Transport.(*http.Transport).TLSClientConfig, nil
			}
		} else {
			node.Start()
		}
		s.isAt(node.Listener.Addr().String(), secured)
		in, err := cp.Disk(t.Context(), of, of.PreviousAllocation, otherNode)
		require.NoError(t, err)
		h, err := tar.NewReader(in).Next()
		require.NoError(t, err)
		require.Equal(t, "alloc/data/f", h.Name)
		require.NoError(t, in.Close())
		_, err = cp.Disk(t.Context(), of, allocID(51), otherNode)
		require.ErrorContains(t, err, "answers 302", "the token is for this node only")
		node.Close()
	}
	_, err := cp.Disk(t.Context(), of, of.PreviousAllocation, otherNode)
	require.Error(t, err, "there is nobody")

	for _, address := range []string{"", "nowhere", "a b:1"} {
		s.isAt(address, false)
		_, err = cp.Disk(t.Context(), of, of.PreviousAllocation, otherNode)
		require.EqualError(t, err, `node "other", which it was on, tells no address of its API that other nodes reach`)
	}
	_, err = cp.Disk(t.Context(), of, of.PreviousAllocation, allocID(9))
	require.EqualError(t, err, "the servers have forgotten node "+allocID(9)+", which it was on")
	_, err = cp.Disk(t.Context(), of, of.PreviousAllocation, nodeID)
	require.EqualError(t, err, "node "+nodeID+", which is this one, has removed it already")
}

func TestADiskThatDoesNotComeIsLetGoOf(t *testing.T) {
	release := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer node.Close()
	defer close(release)
	ctx, cancel := context.WithCancelCause(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, node.URL, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request) //nolint:bodyclose // the stream closes it
	require.NoError(t, err)
	in := newStream(ctx, response.Body, cancel, time.Second) // which comes well before
	some := make([]byte, 4)
	_, err = io.ReadFull(in, some)
	require.NoError(t, err)
	_, err = in.Read(some)
	require.ErrorIs(t, err, errStalled)
	require.NoError(t, in.Close())
}

// The token is the one that real servers were seen to make of an allocation's ID and a node's secret.
func TestADiskIsGivenToWhoHasItsToken(t *testing.T) {
	s := startServer(t)
	cp := join(t, s.address) // which it need not have heard
	const right = "G0t6ocsxi8kaXMiYmymScfuHSg9ztm_dCE1_yXNiCOWaP6bZgI9UE4xkH_4d1zdPgXUKFy1goExTfOqgz5hetA=="
	require.NoError(t, cp.MayTakeDisk(allocID(1), right))
	for _, wrong := range []string{"", "no token", right[:len(right)-4], right + right} {
		require.ErrorIs(t, cp.MayTakeDisk(allocID(1), wrong), errdefs.PermissionDenied, wrong)
	}
	require.ErrorIs(t, cp.MayTakeDisk(allocID(2), right), errdefs.PermissionDenied)
}

func TestTheAddressThatOtherNodesReach(t *testing.T) {
	for listens, want := range map[string]string{
		"127.0.0.1:4646": "", "[::1]:4646": "", "unix:///run/a.sock": "", "": "",
		"0.0.0.0:4646": "192.0.2.7:4646", "[::]:4646": "192.0.2.7:4646", "192.0.2.9:4646": "192.0.2.9:4646", "[2001:db8::1]:80": "[2001:db8::1]:80",
	} {
		n := described()
		n.HTTPAddress, n.TLS = listens, true
		require.Equal(t, want, ReachableAddress(n), listens)
		require.Equal(t, want, nodeOf(n, secretID).HTTPAddr)
		require.True(t, nodeOf(n, secretID).TLSEnabled)
	}
}

func TestADiskIsFetchedFromNoAddressOfAMachinesOwnLink(t *testing.T) {
	for address, is := range map[string]bool{
		"127.0.0.1:4646": true, "192.0.2.1:4646": true, "[2001:db8::1]:4646": true,
		"169.254.169.254:80": false, "[::ffff:169.254.169.254]:80": false, "[fe80::1%eth0]:80": false, "0.0.0.0:80": false, "[::]:80": false, "224.0.0.1:80": false,
	} {
		require.Equal(t, is, ofAnotherNode("tcp", address, nil) == nil, address)
	}
	from, err := url.Parse("http://169.254.169.254:80/v1/client/allocation/a/snapshot")
	require.NoError(t, err)
	_, err = new(ControlPlane).download(t.Context(), from, "")
	require.ErrorContains(t, err, "it is no address of a node that others reach")
}
