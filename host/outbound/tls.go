package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// tlsConfig makes what a plugin asks for a configuration; host is whom the certificate has to
// name if nothing else is said.
func tlsConfig(o *wasmnodev1.TlsOptions, host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(o.GetServerName(), host), NextProtos: []string{"http/1.1"}}
	if len(o.GetRootsPem()) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(o.RootsPem) {
			return nil, abi.NewError(abi.InvalidArgument, "roots_pem has no certificate")
		}
	}
	if len(o.GetCertificatePem()) > 0 || len(o.GetKeyPem()) > 0 {
		certificate, err := tls.X509KeyPair(o.CertificatePem, o.KeyPem)
		if err != nil {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("certificate_pem and key_pem: %v", err))
		}
		c.Certificates = []tls.Certificate{certificate}
	}
	return c, nil
}

// secure makes a connection one of TLS. It closes what it cannot use.
func secure(ctx context.Context, conn net.Conn, c *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, c)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, abi.NewRecoverableError(abi.DeadlineExceeded, fmt.Sprintf("TLS with %s: it does not answer in time", c.ServerName))
		}
		return nil, abi.NewError(abi.Unavailable, fmt.Sprintf("TLS with %s: %v", c.ServerName, err))
	}
	return secured, nil
}

// Secure makes a connection to a host one of TLS, whatever protocol follows, within the
// context. It closes what it cannot use.
//
// # Errors
//
// INVALID_ARGUMENT: options that are not PEM; UNAVAILABLE: the handshake failed, which
// includes a certificate that is not trusted; DEADLINE_EXCEEDED.
func Secure(ctx context.Context, conn net.Conn, o *wasmnodev1.TlsOptions, host string) (net.Conn, error) {
	c, err := tlsConfig(o, host)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.NextProtos = nil
	return secure(ctx, conn, c)
}
