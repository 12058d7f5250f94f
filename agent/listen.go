package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/httpapi/access"
)

// listen opens all that the API listens on, with its bounds and, where it is configured, TLS.
func (a *agent) listen() (all []net.Listener, err error) {
	l := a.cfg.Access.Limits
	limits := access.DefaultLimits()
	limits.Reads, limits.Bodies, limits.Streams, limits.Connections = l.Reads, l.Bodies, l.Streams, l.Connections
	a.bounds = access.NewBounds(limits)
	if path := a.cfg.Socket(); path != "" {
		listener, err := listenSocket(path, a.cfg.Access.SocketGroup)
		if err != nil {
			return nil, fmt.Errorf("http: %w: choose another socket with -http-addr", err)
		}
		a.address = "unix://" + path
		return []net.Listener{a.bounds.Listener(listener)}, nil
	}
	defer func() {
		if err != nil {
			closeAll(all) // nothing has come in
		}
	}()
	port := a.cfg.HTTPPort
	for _, address := range a.cfg.Addresses() {
		listener, err := listenTCP(address, port)
		if err != nil {
			return all, err
		}
		all = append(all, a.bounds.Listener(listener))
		if err := a.mayListen(listener.Addr()); err != nil {
			return all, err
		}
		port = listener.Addr().(*net.TCPAddr).Port // any free one is the same for all
	}
	a.address = all[0].Addr().String() // the first is the one that is told
	if !a.cfg.Access.TLS.HTTP {
		return all, nil
	}
	if a.certificates, err = openCertificates(a.cfg.Access.TLS, a.logger.Named("tls"), &a.conditions); err != nil {
		return all, err
	}
	for i := range all {
		all[i] = tls.NewListener(all[i], a.certificates.config())
	}
	return all, nil
}

func listenTCP(address string, port int) (net.Listener, error) {
	network := "tcp"
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is4() {
		network = "tcp4" // 0.0.0.0 is what it says, and shown as that
	}
	listener, err := net.Listen(network, net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("http: %w: choose another address with -http-addr, -bind, bind_addr or addresses.http, which may be several with spaces between", err)
	}
	return listener, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// mayListen refuses to let everybody on a network run programs here, unless that is what
// the operator says.
func (a *agent) mayListen(at net.Addr) error {
	access := a.cfg.Access
	if !openToAll(access, at) {
		return nil
	}
	if access.Insecure {
		a.logger.Warn("everybody who reaches this address may run programs on this machine: insecure_api is set", "http_addr", at)
		return nil
	}
	return openFault(at)
}

// openToAll reports whether everybody who reaches an address may run programs here.
func openToAll(access config.Access, at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return (!ok || !tcp.IP.IsLoopback()) && !access.ACL && !access.TLS.VerifyHTTPSClient
}

func openFault(at net.Addr) error {
	return fmt.Errorf("http: everybody who reaches %s could run programs on this machine: "+
		"set acl { enabled = true }, or tls with verify_https_client = true, or say insecure_api = true in the configuration", at)
}

// checkListening refuses what [agent.mayListen] would, before anything listens. A name that is not
// known is left to who listens.
func checkListening(cfg config.Config) error {
	if cfg.Socket() != "" || cfg.Access.Insecure {
		return nil
	}
	for _, address := range cfg.Addresses() {
		at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(address, strconv.Itoa(cfg.HTTPPort)))
		if err == nil && openToAll(cfg.Access, at) {
			return openFault(at)
		}
	}
	return nil
}

// maxSocketPath is what the kernel takes, with room for the directory in which a socket is
// made.
const maxSocketPath = 90

// socketMode lets the socket's owner and group use it.
const socketMode = 0o660

// listenSocket listens on a socket that its owner and the group may use, and nobody else
// at any time: it appears under its name when its permissions are right. One that a
// killed agent has left is replaced.
func listenSocket(path, group string) (_ net.Listener, err error) {
	gid := -1 // the agent's own
	if group != "" {
		if gid, err = groupID(group); err != nil {
			return nil, err
		}
	}
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s: the path of a socket can have %d bytes", path, maxSocketPath)
	}
	if err := freeSocket(path); err != nil {
		return nil, err
	}
	sweepSockets(filepath.Dir(path), time.Now())
	private, err := os.MkdirTemp(filepath.Dir(path), privatePrefix+"*") // 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	made := filepath.Join(private, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	err = errors.Join(os.Chown(made, -1, gid), os.Chmod(made, socketMode))
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{l, path}, nil
}

// privatePrefix begins the names of the directories that sockets are made in.
const privatePrefix = ".s-"

// sweepSockets removes what agents have left that were killed while they made their socket:
// their own directories that hold nothing else and are a minute old.
func sweepSockets(dir string, now time.Time) {
	left, err := filepath.Glob(filepath.Join(dir, privatePrefix+"*"))
	if err != nil {
		return // a path that is a pattern: they stay
	}
	for _, private := range left {
		info, err := os.Lstat(private)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		_ = os.Remove(filepath.Join(private, "s"))
		_ = os.Remove(private) // it stays if there is anything else in it
	}
}

// freeSocket returns why no socket can be made at a path: something else is there, or a
// process that listens.
func freeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and not a socket", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close() // it was only to see
		return fmt.Errorf("another process listens on %s", path)
	}
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// groupID finds a group by its name or number.
func groupID(group string) (int, error) {
	if g, err := user.LookupGroup(group); err == nil {
		group = g.Gid
	}
	gid, err := strconv.ParseUint(group, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("http_socket_group: there is no group %q", group)
	}
	return int(gid), nil
}

// socket takes its name away when it is closed.
type socket struct {
	net.Listener
	path string
}

// Close implements [net.Listener].
func (s *socket) Close() error {
	_ = os.Remove(s.path) // the next agent replaces it
	return s.Listener.Close()
}
