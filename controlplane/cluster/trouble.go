package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
)

// What servers of Nomad are known to say.
const (
	noLeader      = "No cluster leader"
	noRegion      = "No path to region"
	unknownMethod = "rpc: can't find"
	unknownStream = "Unknown rpc method"
)

// trouble is why a server is of no use to the node, and what to do.
type trouble struct {
	kind         string // what it is: the same while only times and ports in its text change
	text, remedy string // a line each; the first is without the server's address
	unreached    bool   // nothing of the server was seen
}

// errSilent is of a server that takes connections and questions.
var errSilent = errors.New("it takes the connection and does not answer")

// expiredError is of a certificate of the node's own that is of no use now.
type expiredError struct {
	cert *x509.Certificate
	now  time.Time
}

// Error implements error.
func (e *expiredError) Error() string { return "cert_file: " + validity(e.cert, e.now) }

// validity tells when a certificate is good, and that it is not now.
func validity(cert *x509.Certificate, now time.Time) string {
	return fmt.Sprintf("the certificate is valid from %s to %s, and it is %s now", inUTC(cert.NotBefore), inUTC(cert.NotAfter), inUTC(now))
}

func inUTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// valid refuses certificates of the node's own that servers would refuse, who do not say why.
func valid(c *tls.Config, now time.Time) error {
	if c == nil {
		return nil
	}
	for _, own := range c.Certificates {
		if cert := own.Leaf; cert != nil && (now.Before(cert.NotBefore) || now.After(cert.NotAfter)) {
			return &expiredError{cert, now}
		}
	}
	return nil
}

// The remedies that several troubles have.
const (
	isItNomad  = "name the RPC port of a Nomad server in client.servers, which is 4647 unless it says otherwise (4646 is that of its HTTP API)"
	renewOrSet = "renew it, or set the clock of this machine if it is wrong: timedatectl set-ntp true"
)

// explain says what an error of a connection means. Secured: it was one with TLS.
func (s *servers) explain(err error, secured bool) trouble {
	if t := s.ofTLS(err); t != nil {
		return *t
	}
	if t := s.ofProtocol(err); t != nil {
		return *t
	}
	return s.ofNetwork(err, secured)
}

// ofTLS is what an error of TLS means; nil: it is none.
func (s *servers) ofTLS(err error) *trouble {
	var (
		own       *expiredError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
		plain     tls.RecordHeaderError
		file      *os.PathError
		alert     *net.OpError
	)
	switch {
	case errors.As(err, &own):
		return &trouble{kind: "own certificate", text: err.Error(), remedy: renewOrSet}
	case errors.As(err, &authority):
		return &trouble{
			kind: "authority", text: "its certificate is of an authority that ca_file does not have",
			remedy: "put the certificate of the cluster's authority into ca_file of the block tls",
		}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &trouble{kind: "certificate", text: "server: " + validity(invalid.Cert, s.timing.clock()), remedy: renewOrSet}
	case errors.As(err, &host):
		return &trouble{
			kind: "host", text: fmt.Sprintf("its certificate is not for server.%s.nomad", s.region),
			remedy: "compare region with that of the servers, and give them certificates of nomad tls cert create -server; or leave verify_server_hostname out",
		}
	case errors.As(err, &plain):
		return &trouble{
			kind: "plain", text: fmt.Sprintf("it answers %q, which is no TLS", plain.RecordHeader[:]),
			remedy: "leave tls { rpc = true } out where the servers have no TLS; " + isItNomad,
		}
	case errors.As(err, &alert) && alert.Op == "remote error":
		return &trouble{
			kind: alert.Err.Error(), text: fmt.Sprintf("it refuses the certificate of this node (%v)", alert.Err),
			remedy: fmt.Sprintf("cert_file and key_file have to be of the cluster's authority and for client.%s.nomad (nomad tls cert create -client), and valid by the clocks of both", s.region),
		}
	case errors.As(err, &file), strings.HasPrefix(err.Error(), "tls: "):
		return &trouble{kind: err.Error(), text: err.Error(), remedy: "mend the files of the block tls: they are read for each connection"}
	}
	return nil
}

// ofProtocol is what an answer means that is of no use; nil: there was none.
func (s *servers) ofProtocol(err error) *trouble {
	var (
		foreign *wire.ForeignError
		remote  *wire.RemoteError
	)
	switch {
	case errors.As(err, &foreign):
		return &trouble{kind: "foreign", text: err.Error(), remedy: isItNomad}
	case errors.Is(err, wire.ErrGarbage):
		return &trouble{kind: "garbage", text: err.Error(), remedy: "look at the version of the server: this node knows Nomad 1.6 to 2.0"}
	case wire.Says(err, noRegion):
		return &trouble{
			kind: noRegion, text: fmt.Sprintf("it is not of region %q, and knows no way there", s.region),
			remedy: "set region to that of the servers, which nomad server members shows",
		}
	case wire.Says(err, noLeader):
		return &trouble{
			kind: noLeader, text: "the servers have no leader (" + noLeader + ")",
			remedy: "have more than half of the servers run and reach each other: nomad operator raft list-peers -stale",
		}
	case wire.Says(err, unknownMethod):
		return &trouble{kind: "method", text: err.Error(), remedy: "look at the version of the server: this node needs Nomad 1.6 or newer"}
	case errors.As(err, &remote):
		return &trouble{kind: "remote", text: err.Error(), remedy: "look at the log of the server"}
	}
	return nil
}

// ofNetwork is what it means that nothing was answered.
func (s *servers) ofNetwork(err error, secured bool) trouble {
	var (
		name *net.DNSError
		op   *net.OpError
	)
	lookAt := "look at the server, at the network to it, and at client.servers"
	switch {
	case errors.As(err, &name):
		return trouble{kind: "name", text: fmt.Sprintf("its name is not found: %v", err), remedy: "look at client.servers, and at the name servers of this machine", unreached: true}
	case errors.As(err, &op) && op.Op == "dial":
		return trouble{kind: op.Err.Error(), text: fmt.Sprintf("it cannot be reached: %v", op.Err), remedy: lookAt, unreached: true}
	case errors.Is(err, errSilent), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return trouble{kind: "silent", text: errSilent.Error(), remedy: "look at the server; " + isItNomad}
	case secured:
		return trouble{
			kind: "closed", text: "it closes the connection",
			remedy: fmt.Sprintf("have the servers use TLS (tls { rpc = true }) and accept the certificate for client.%s.nomad: their log says what they refuse", s.region),
		}
	}
	return trouble{kind: "closed", text: "it closes the connection", remedy: "set tls { rpc = true } where the servers want TLS: their log says what they refuse; " + isItNomad}
}

// Trouble is what keeps the servers from giving the node work.
type Trouble struct {
	Since        time.Time
	Text, Remedy string // a line each
}

// Trouble is why no server answers, or why they do not take the node; nil: it is one of theirs.
func (cp *ControlPlane) Trouble() *Trouble {
	if t := cp.servers.trouble(); t != nil {
		return t
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.refusal
}

func (s *servers) trouble() *Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.session != nil && (s.session.useful.Load() || s.last.kind == ""):
		return nil
	case s.last.kind == "":
		return &Trouble{Since: s.silent, Text: "no server of the cluster has answered yet", Remedy: "look at the servers, at the network to them, and at client.servers of the configuration"}
	}
	return &Trouble{Since: s.silent, Text: "no server of the cluster answers (" + s.last.text + ")", Remedy: s.last.remedy}
}
