package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	nomad "github.com/hashicorp/nomad/api"
)

// defaultAddress is where a node listens by default.
const defaultAddress = "http://127.0.0.1:4646"

// permissionDenied is the node's answer to a request that needs another token.
const permissionDenied = "Permission denied"

// connection is how a command reaches a node: what Nomad's environment variables say,
// and the flags over them.
type connection struct {
	config            *nomad.Config
	address, token    string
	region, namespace string
	tls               *nomad.TLSConfig
}

// bind adds the flags of the connection, with Nomad's names.
func (c *connection) bind(f *flag.FlagSet) {
	c.config = nomad.DefaultConfig() // reads the environment
	c.tls = c.config.TLSConfig
	f.StringVar(&c.address, "address", c.config.Address, "")
	f.StringVar(&c.token, "token", c.config.SecretID, "")
	f.StringVar(&c.region, "region", c.config.Region, "")
	f.StringVar(&c.namespace, "namespace", c.config.Namespace, "")
	f.StringVar(&c.tls.CACert, "ca-cert", c.tls.CACert, "")
	f.StringVar(&c.tls.CAPath, "ca-path", c.tls.CAPath, "")
	f.StringVar(&c.tls.ClientCert, "client-cert", c.tls.ClientCert, "")
	f.StringVar(&c.tls.ClientKey, "client-key", c.tls.ClientKey, "")
	f.StringVar(&c.tls.TLSServerName, "tls-server-name", c.tls.TLSServerName, "")
	f.BoolVar(&c.tls.Insecure, "tls-skip-verify", c.tls.Insecure, "")
}

// open returns a client of the node.
func (c *connection) open() (*nomad.Client, error) {
	address := c.address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"http", "https", "unix"}, u.Scheme) || u.Host == "" && u.Path == "" {
		return nil, fmt.Errorf("-address %q is not an address such as %s", c.address, defaultAddress)
	}
	c.config.Address, c.config.SecretID, c.config.Region, c.config.Namespace = address, c.token, c.region, c.namespace
	client, err := nomad.NewClient(c.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.address, err)
	}
	return client, nil
}

// packagedSocket is where the node of a package listens.
const packagedSocket = "/run/wasmnode/api.sock"

// hint says what may be done about a node that cannot be reached at an address. packaged is where
// another may listen, on a socket.
func hint(address, packaged string, err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var alert tls.AlertError
	var dns *net.DNSError
	text := err.Error()
	switch {
	case errors.As(err, &dns):
		return "the -address or NOMAD_ADDR of a node is one such as " + defaultAddress
	case errors.As(err, &unknown):
		return "name its authority with -ca-cert or NOMAD_CACERT"
	case errors.As(err, &name):
		return "name the certificate's host with -tls-server-name or NOMAD_TLS_SERVER_NAME"
	case errors.As(err, &alert), strings.Contains(text, "tls: certificate required"), strings.Contains(text, "tls: bad certificate"):
		return "does it want a client's certificate? -client-cert and -client-key, or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "it has no TLS: its address begins with http://"
	case errors.Is(err, fs.ErrPermission):
		return whoMayOpen(strings.TrimPrefix(address, "unix://"))
	case address == defaultAddress && isSocket(packaged):
		return "the node of this machine's package is asked on its socket: export NOMAD_ADDR=unix://" + packaged
	}
	return "is an agent running? wasmnode agent -dev"
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// whoMayOpen says whom a socket is for, and how one becomes one of them.
func whoMayOpen(socket string) string {
	const openForGroup = 0o060
	info, err := os.Stat(socket)
	if err == nil && info.Mode()&openForGroup == openForGroup {
		stat, _ := info.Sys().(*syscall.Stat_t)
		if group, err := user.LookupGroupId(strconv.FormatUint(uint64(stat.Gid), 10)); err == nil && stat.Gid != 0 {
			return fmt.Sprintf("it is for root and the group %s: sudo usermod -aG %[1]s $USER, and log in again", group.Name)
		}
	}
	return "the socket is for its owner and its group: http_socket_group"
}

// connectionOptions are the options of [connection].
const connectionOptions = `
  How the node is reached:

  -address=ADDR   Its address, or unix:///PATH of its socket; NOMAD_ADDR, or
                  http://127.0.0.1:4646.
  -token=SECRET   The secret of an ACL token; NOMAD_TOKEN.
  -namespace=NAME, -region=NAME
                  NOMAD_NAMESPACE, NOMAD_REGION.
  -ca-cert=FILE, -ca-path=DIR
                  Authorities of its certificate; NOMAD_CACERT, NOMAD_CAPATH.
  -client-cert=FILE, -client-key=FILE
                  Our certificate; NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY.
  -tls-server-name=NAME
                  The name in its certificate; NOMAD_TLS_SERVER_NAME.
  -tls-skip-verify
                  Do not look at its certificate; NOMAD_SKIP_VERIFY.`
