package cluster

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/crypto/blake2b"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// dialTimeout bounds how long it may take to connect to another node.
	dialTimeout = 10 * time.Second
	// stallTimeout is how long nothing of a disk may come: many nodes may want one at once.
	stallTimeout = 10 * time.Minute
	// maxRefusal bounds what is shown of another node's refusal, in bytes.
	maxRefusal = 200
)

// AwaitEnd implements watcher.Elsewhere, with queries that servers leave open until something
// changes. What they do not know any more, or do not let this node see, is not waited for. While none
// answers, it waits.
func (cp *ControlPlane) AwaitEnd(ctx context.Context, of *structs.Allocation, id string, waits func(nodeID string)) (nodeID string, err error) {
	seen, told, failure := uint64(0), false, ""
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.RandomizationFactor = firstWait, lastWait, 0.5
	for {
		is, index, err := cp.allocationElsewhere(ctx, of.Namespace, id, seen)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case wire.Says(err, "Permission denied"), wire.Says(err, "Unknown allocation"):
			cp.logger.Warn("the servers do not tell of the allocation that another replaces: it is not waited for", "alloc_id", of.ID, "previous_alloc", id, "error", err)
			return "", nil
		case err != nil:
			if failure != err.Error() && !errors.Is(err, errdefs.Unavailable) { // which may last
				failure = err.Error()
				cp.logger.Warn("asking for the allocation that another replaces failed, trying again", "alloc_id", of.ID, "previous_alloc", id, "error", err)
			}
		case index < seen: // a server is behind, or all of them were restored: the leader knows
			seen = 0
		case is == nil:
			return "", nil
		case structs.ClientStatus(is.ClientStatus).Terminal() || is.ClientStatus == string(structs.ClientUnknown):
			return is.NodeID, nil
		case !told:
			told = true
			waits(is.NodeID)
			fallthrough
		default:
			seen = index
			wait.Reset()
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// wireElsewhere is what a node is to know of an allocation of another one.
type wireElsewhere struct{ ID, NodeID, ClientStatus string }

// allocationElsewhere asks for an allocation once it has changed since an index; nil: there is none.
func (cp *ControlPlane) allocationElsewhere(ctx context.Context, namespace, id string, since uint64) (is *wireElsewhere, index uint64, err error) {
	q, err := cp.reading(namespace)
	if err != nil {
		return nil, 0, err
	}
	q.MinQueryIndex, q.MaxQueryTime, q.AllowStale = since, maxQuery, since > 0
	var got struct {
		Alloc *wireElsewhere
		Index uint64
	}
	err = cp.servers.callFor(ctx, maxQuery+lateQuery, "Alloc.GetAlloc", struct {
		query
		AllocID string
	}{q, id}, &got)
	return got.Alloc, got.Index, err
}

// Disk implements watcher.Elsewhere: the other node is asked, at the address that it has told the
// servers, with the token that they have given this one for it. What does not come for ten minutes
// ends it.
func (cp *ControlPlane) Disk(ctx context.Context, of *structs.Allocation, id, nodeID string) (io.ReadCloser, error) {
	select {
	case <-cp.pulled.asked: // the token comes with the answer
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if own, _, err := cp.registered(nodeID); err == nil {
		return nil, fmt.Errorf("node %s, which is this one, has removed it already", own.ID)
	}
	from, err := cp.address(ctx, nodeID, id)
	if err != nil {
		return nil, err
	}
	cp.mu.Lock()
	token := ""
	if k := cp.pulled.known[of.ID]; k != nil {
		token = k.migrateToken
	}
	cp.mu.Unlock()
	return cp.download(ctx, from, token)
}

// address is where the disk of an allocation is.
func (cp *ControlPlane) address(ctx context.Context, nodeID, allocID string) (*url.URL, error) {
	q, err := cp.reading("")
	if err != nil {
		return nil, err
	}
	var got struct{ Node *wireNeighbour }
	if err := cp.servers.call(ctx, "Node.GetNode", struct {
		query
		NodeID string
	}{q, nodeID}, &got); err != nil {
		return nil, err
	}
	if got.Node == nil {
		return nil, fmt.Errorf("the servers have forgotten node %s, which it was on", nodeID)
	}
	return got.Node.disk(allocID)
}

// wireNeighbour is what a node is to know of another one.
type wireNeighbour struct {
	Name, HTTPAddr string
	TLSEnabled     bool
}

// disk is where that node has the disk of an allocation.
func (n *wireNeighbour) disk(allocID string) (*url.URL, error) {
	if !isAddress(n.HTTPAddr) {
		return nil, fmt.Errorf("node %.100q, which it was on, tells no address of its API that other nodes reach", n.Name)
	}
	from := &url.URL{Scheme: "http", Host: n.HTTPAddr, Path: "/v1/client/allocation/" + allocID + "/snapshot"}
	if n.TLSEnabled {
		from.Scheme = "https"
	}
	return from, nil
}

// download asks another node. It follows it nowhere else: the token is for this one.
func (cp *ControlPlane) download(ctx context.Context, from *url.URL, token string) (_ io.ReadCloser, err error) {
	var secured *tls.Config
	if cp.cfg.NodeTLS != nil {
		if secured, err = cp.cfg.NodeTLS(); err != nil {
			return nil, err
		}
	}
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: dialTimeout, Control: ofAnotherNode}).DialContext,
		TLSClientConfig: secured, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: stallTimeout, DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if token != "" {
		request.Header.Set("X-Nomad-Token", token)
	}
	response, err := client.Do(request) //nolint:bodyclose // the stream closes it
	if err != nil {
		cancel(nil)
		return nil, err
	}
	in := newStream(ctx, response.Body, cancel, stallTimeout)
	if response.StatusCode != http.StatusOK {
		defer in.Close()
		said, _ := io.ReadAll(io.LimitReader(in, maxRefusal)) // what can be read of it
		return nil, fmt.Errorf("%s answers %d: %q", from.Host, response.StatusCode, said)
	}
	return in, nil
}

// ofAnotherNode refuses addresses of a link that no other node has, such as those of a cloud's metadata:
// whoever registers a node chooses where this one connects to, and what answers there is shown in
// part. Several nodes may be on one machine, by its loopback.
func ofAnotherNode(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := to.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return errors.New("it is no address of a node that others reach")
	}
	return nil
}

// stream is what another node sends. It ends when nothing comes.
type stream struct {
	ctx     context.Context
	body    io.ReadCloser
	cancel  context.CancelCauseFunc
	patient time.Duration
	alarm   *time.Timer
}

var errStalled = errors.New("nothing has come for too long")

func newStream(ctx context.Context, body io.ReadCloser, cancel context.CancelCauseFunc, patient time.Duration) io.ReadCloser {
	return &stream{ctx, body, cancel, patient, time.AfterFunc(patient, func() { cancel(errStalled) })}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.alarm.Reset(s.patient)
	n, err := s.body.Read(p)
	s.alarm.Stop() // what is done with it does not count
	if err != nil && errors.Is(context.Cause(s.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.alarm.Stop()
	s.cancel(nil)
	return s.body.Close()
}

// MayTakeDisk returns nil for who has the token that servers give the node which is to have the disk of
// one of this node's allocations: it is made of the node's secret. Other errors are
// errdefs.PermissionDenied.
func (cp *ControlPlane) MayTakeDisk(allocID, token string) error {
	given, err := base64.URLEncoding.DecodeString(token)
	if err == nil && len(given) == blake2b.Size {
		secret, err := cp.cfg.Secret() // servers may not have been heard yet
		if err != nil {
			return err
		}
		h, err := blake2b.New512([]byte(secret))
		if err != nil {
			return err
		}
		_, _ = h.Write([]byte(allocID)) // a hash takes everything
		if subtle.ConstantTimeCompare(h.Sum(nil), given) == 1 {
			return nil
		}
	}
	return errdefs.New(errdefs.PermissionDenied, "%v", structs.ErrACLDenied)
}
