package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Access is who may use the HTTP API, and how much of it at once.
type Access struct {
	// Hosts are names by which the node may be asked, besides addresses and localhost.
	Hosts []string `key:"http_hosts"`
	// SocketGroup is the group that may use the API's socket; empty: the agent's own.
	SocketGroup string `key:"http_socket_group"`
	// Insecure lets whoever reaches an address that is not loopback use the API.
	Insecure bool `key:"insecure_api"`
	// ACL has requests need tokens.
	ACL bool `key:"acl.enabled"`
	// Page serves the node's web page beside the API.
	Page bool `key:"ui.enabled"`
	// TokenLeastTTL and TokenMostTTL bound how long tokens are made for that expire.
	TokenLeastTTL time.Duration `key:"acl.token_min_expiration_ttl"`
	TokenMostTTL  time.Duration `key:"acl.token_max_expiration_ttl"`

	TLS    TLS    `key:"tls"`
	Limits Limits `key:"limits"`
}

// TLS is how the HTTP API is encrypted, and who is let in by a certificate. The files are
// PEM.
type TLS struct {
	HTTP bool `key:"http"` // off: none of the others is set, unless RPC is
	// RPC encrypts the connections to the servers of a cluster, with the same files.
	RPC bool `key:"rpc"`
	// VerifyServerHostname takes only servers of the region, by the name in their certificates.
	VerifyServerHostname bool `key:"verify_server_hostname"`

	CertFile string `key:"cert_file"`
	KeyFile  string `key:"key_file"`
	// CAFile has the authorities of the clients' certificates.
	CAFile string `key:"ca_file"`
	// VerifyHTTPSClient lets in only who has a certificate.
	VerifyHTTPSClient bool `key:"verify_https_client"`
}

// Limits bounds what the HTTP API serves at once. All are positive.
type Limits struct {
	Reads       int `key:"http_max_reads"`   // requests without a body
	Bodies      int `key:"http_max_bodies"`  // requests with one
	Streams     int `key:"http_max_streams"` // blocking queries, logs, files and commands
	Connections int `key:"http_max_conns"`
}

type aclBlock struct {
	Enabled       *bool          `hcl:"enabled,optional"`
	TokenLeastTTL *hcl.Attribute `hcl:"token_min_expiration_ttl,optional"`
	TokenMostTTL  *hcl.Attribute `hcl:"token_max_expiration_ttl,optional"`
}

type uiBlock struct {
	Enabled *bool `hcl:"enabled,optional"`
}

type tlsBlock struct {
	HTTP              *bool   `hcl:"http,optional"`
	RPC               *bool   `hcl:"rpc,optional"`
	CAFile            *string `hcl:"ca_file,optional"`
	CertFile          *string `hcl:"cert_file,optional"`
	KeyFile           *string `hcl:"key_file,optional"`
	VerifyHTTPSClient *bool   `hcl:"verify_https_client,optional"`
	VerifyServers     *bool   `hcl:"verify_server_hostname,optional"`
}

type limitsBlock struct {
	Reads       *int `hcl:"http_max_reads,optional"`
	Bodies      *int `hcl:"http_max_bodies,optional"`
	Streams     *int `hcl:"http_max_streams,optional"`
	Connections *int `hcl:"http_max_conns,optional"`
}

// access applies what a file says about who may use the API.
func (l *loader) access(f *file) {
	a := &l.config.Access
	set(&a.Hosts, f.HTTPHosts)
	set(&a.SocketGroup, f.SocketGroup)
	set(&a.Insecure, f.InsecureAPI)
	if f.ACL != nil {
		set(&a.ACL, f.ACL.Enabled)
		set(&a.TokenLeastTTL, l.duration(f.ACL.TokenLeastTTL))
		set(&a.TokenMostTTL, l.duration(f.ACL.TokenMostTTL))
	}
	if f.UI != nil {
		set(&a.Page, f.UI.Enabled)
	}
	if f.TLS != nil {
		set(&a.TLS.HTTP, f.TLS.HTTP)
		set(&a.TLS.RPC, f.TLS.RPC)
		set(&a.TLS.CAFile, f.TLS.CAFile)
		set(&a.TLS.CertFile, f.TLS.CertFile)
		set(&a.TLS.KeyFile, f.TLS.KeyFile)
		set(&a.TLS.VerifyHTTPSClient, f.TLS.VerifyHTTPSClient)
		set(&a.TLS.VerifyServerHostname, f.TLS.VerifyServers)
	}
	if f.Limits != nil {
		set(&a.Limits.Reads, f.Limits.Reads)
		set(&a.Limits.Bodies, f.Limits.Bodies)
		set(&a.Limits.Streams, f.Limits.Streams)
		set(&a.Limits.Connections, f.Limits.Connections)
	}
}

// Socket is the path of the socket that the API listens on; empty: it listens on an
// address.
func (c Config) Socket() string {
	path, is := strings.CutPrefix(c.BindAddr, "unix://")
	if !is {
		return ""
	}
	return path
}

// Addresses are what the API listens on, but for a socket: one, or several.
func (c Config) Addresses() []string { return strings.Fields(c.BindAddr) }

// validateBindAddr returns every fault of where the API listens.
func (c Config) validateBindAddr() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	path, socket := strings.CutPrefix(c.BindAddr, "unix://")
	switch {
	case socket && !cleanBelowRoot(path):
		fault("bind_addr: %q: a socket's path is absolute, such as unix:///run/wasmnode.sock", c.BindAddr)
	case socket && c.Access.TLS.HTTP:
		fault("bind_addr: a socket has no TLS: leave out tls { http = true }")
	case !socket && bindFault(c.BindAddr) != nil:
		fault("bind_addr: %w", bindFault(c.BindAddr))
	case !socket && c.Access.SocketGroup != "":
		fault("http_socket_group: there is no socket: bind_addr is %q", c.BindAddr)
	}
	return errs
}

var validHost = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// unused tells what has no effect, since it is meant for RPC, unless there are servers to join.
func (t TLS) unused(joins bool) (list []string) {
	if joins {
		return nil
	}
	if t.VerifyServerHostname {
		list = append(list, "tls.verify_server_hostname has no effect: "+onlyHTTP)
	}
	switch {
	case !t.RPC:
	case t.HTTP:
		list = append(list, "tls.rpc has no effect: "+onlyHTTP)
	default:
		list = append(list, "tls.rpc has no effect, and so have its files: "+onlyHTTP+", and that is not encrypted without http = true")
	}
	return list
}

// validate returns every fault of the keys and blocks.
func (a Access) validate() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, h := range a.Hosts {
		if !validHost.MatchString(h) {
			fault("http_hosts: %q is not the name of a host; it has no scheme and no port", h)
		}
	}
	for _, limit := range []struct {
		key string
		n   int
	}{
		{"reads", a.Limits.Reads}, {"bodies", a.Limits.Bodies}, {"streams", a.Limits.Streams}, {"conns", a.Limits.Connections},
	} {
		if limit.n < 1 {
			fault("limits.http_max_%s: %d is less than 1", limit.key, limit.n)
		}
	}
	switch {
	case a.TokenLeastTTL <= 0:
		fault("acl.token_min_expiration_ttl: %s is not positive", a.TokenLeastTTL)
	case a.TokenMostTTL < a.TokenLeastTTL:
		fault("acl.token_max_expiration_ttl: %s is less than token_min_expiration_ttl, %s", a.TokenMostTTL, a.TokenLeastTTL)
	}
	t := a.TLS
	for _, file := range []struct{ key, path string }{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}} {
		switch {
		case file.path != "" && !t.HTTP && !t.RPC:
			fault("tls.%s: it has no effect without http = true", file.key)
		case file.path != "" && !filepath.IsAbs(file.path):
			fault("tls.%s: %q is not an absolute path", file.key, file.path)
		}
	}
	switch {
	case t.HTTP && (t.CertFile == "" || t.KeyFile == ""):
		fault("tls: http = true needs cert_file and key_file")
	case t.VerifyHTTPSClient && !t.HTTP:
		fault("tls.verify_https_client: it has no effect without http = true")
	case t.VerifyHTTPSClient && t.CAFile == "":
		fault("tls: verify_https_client = true needs ca_file, with the authorities of the clients' certificates")
	}
	return errs
}
