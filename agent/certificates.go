package agent

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/structs"
)

// certificates are the API's, read again when their files have changed. Methods may be
// called concurrently.
type certificates struct {
	files      config.TLS
	logger     hclog.Logger
	conditions *conditions

	mu      sync.Mutex
	version string // of the files that were read last, good ones or not
	current *tls.Config
}

// openCertificates reads the files for the first time.
func openCertificates(files config.TLS, logger hclog.Logger, conditions *conditions) (*certificates, error) {
	c := &certificates{files: files, logger: logger, conditions: conditions}
	c.version = c.onDisk()
	var err error
	if c.current, err = c.read(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return c, nil
}

// config is for a listener: each connection gets the certificates that are current.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if now := c.onDisk(); now != c.version {
				_ = c.load(now) // it has told
			}
			return c.current, nil
		},
	}
}

// reload reads the files whether they have changed or not. On an error, which it also
// logs and tells as a condition, the certificates from before stay.
func (c *certificates) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(c.onDisk())
}

// conditionTLS is the name of the condition about certificates that could not be read.
const conditionTLS = "tls"

// load reads the files of a version. The caller holds the lock.
func (c *certificates) load(version string) error {
	c.version = version // those that are bad are not read again until they change
	read, err := c.read()
	if err != nil {
		err = fmt.Errorf("tls: %w; the certificates from before stay in use", err)
		c.logger.Error("certificates could not be read again", "error", err)
		c.conditions.set(structs.Condition{Name: conditionTLS, Text: err.Error(), Remedy: "put good certificates where the block tls of the configuration says: they are read when somebody connects"})
		return err
	}
	c.current = read
	c.conditions.clear(conditionTLS)
	c.logger.Info("certificates were read again", "cert_file", c.files.CertFile)
	return nil
}

// onDisk tells one version of the files from another, without reading them.
func (c *certificates) onDisk() string {
	var b strings.Builder
	for _, path := range []string{c.files.CertFile, c.files.KeyFile, c.files.CAFile} {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// read makes a configuration of what the files have now.
func (c *certificates) read() (*tls.Config, error) {
	own, err := ownCertificates(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: own}
	if cfg.ClientCAs, err = authorities(c.files.CAFile); err != nil {
		return nil, err
	}
	if c.files.VerifyHTTPSClient {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg, nil
}

// ownCertificates are those that the files have by which one proves who it is; without files, none.
func ownCertificates(certFile, keyFile string) ([]tls.Certificate, error) {
	if certFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("cert_file, key_file: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// authorities are those that a file has; nil without a file, which stands for the system's.
func authorities(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file: %s has no certificate in PEM", caFile)
	}
	return pool, nil
}
