package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// testTimeout is how long anything may take that is waited for: Nomad needs half a
	// minute for some.
	testTimeout = 2 * time.Minute
	// tick is how often it is looked at: often enough for what takes a hundredth of a
	// second, and seldom enough that looking costs the agent little.
	tick = 10 * time.Millisecond
)

// agent is a node of ours or of Nomad's, with what it leaves behind when it is killed.
// Everything that runs from its binary belongs to it, and everything that runs from
// its copy of sleep is a task of it.
type agent struct {
	dir, binary, sleep string
	driver             string // what its tasks need
	args               []string
	client             *nomad.Client
	log                transcript
	process            *os.Process
	ended              chan struct{} // closed when the process has
}

// product is what is measured.
type product struct {
	name string
	// install lays out a node below a directory that has the binary and the sleep of
	// [agent], and returns the arguments that start it with its API at an address.
	install func(b *testing.B, a *agent, address string) []string
	binary  func(b *testing.B) string
	driver  string
	dir     string // where it is installed
}

// below is the product where it is installed in a directory of its own.
func (p product) below(dir string) product {
	p.dir = filepath.Join(dir, p.name)
	return p
}

// start installs a node and starts it, until the benchmark ends.
func (p product) start(b *testing.B) *agent {
	b.Helper()
	a := p.launch(b)
	a.await(b, "the agent is ready", a.ready)
	return a
}

// launch is start, without waiting for the node.
func (p product) launch(b *testing.B) *agent {
	b.Helper()
	require.NoError(b, os.Mkdir(p.dir, 0o700))
	a := &agent{dir: p.dir, binary: filepath.Join(p.dir, p.name), sleep: filepath.Join(p.dir, "sleep"), driver: p.driver}
	if binary := p.binary(b); os.Link(binary, a.binary) != nil { // which nodes then have in memory once
		copyFile(b, a.binary, binary)
	}
	copyFile(b, a.sleep, "/bin/sleep")
	address := freeAddress(b)
	a.args = p.install(b, a, address)
	client, err := nomad.NewClient(&nomad.Config{Address: "http://" + address})
	require.NoError(b, err)
	b.Cleanup(client.Close)
	a.client = client
	b.Cleanup(func() { a.clean(b) })
	a.launch(b)
	return a
}

// launch starts the agent's process.
func (a *agent) launch(b *testing.B) {
	b.Helper()
	cmd := exec.Command(a.binary, a.args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+a.dir) // what is killed leaves its sockets there
	cmd.Stdout, cmd.Stderr = &a.log, &a.log
	// Also when the benchmark ends without cleaning up, as a timeout makes it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(b, cmd.Start())
	ended := make(chan struct{})
	a.process, a.ended = cmd.Process, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it never ends by itself but in failure, which await tells
	}()
}

// kill kills the agent's process, and nothing else.
func (a *agent) kill(b *testing.B) {
	b.Helper()
	require.NoError(b, a.process.Kill())
	<-a.ended
}

// ready tells whether a task could be started.
func (a *agent) ready() bool {
	nodes, _, err := a.client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		return false
	}
	driver := nodes[0].Drivers[a.driver]
	return nodes[0].Status == nomad.NodeStatusReady && driver != nil && driver.Healthy
}

// await waits until something is so, which needs an agent.
func (a *agent) await(b *testing.B, what string, so func() bool) {
	b.Helper()
	late := time.After(testTimeout)
	look := time.NewTicker(tick)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-a.ended:
			b.Fatalf("the agent ended before this: %s", what)
		case <-late:
			b.Fatalf("not in %s: %s", testTimeout, what)
		}
	}
}

// clean ends whatever is left of the node, and takes its mounts down.
func (a *agent) clean(b *testing.B) {
	if b.Failed() {
		b.Logf("the agent's log:\n%s", a.log.String())
	}
	for _, exe := range []string{a.binary, a.sleep} {
		require.Eventually(b, func() bool {
			left := running(b, exe)
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return len(left) == 0
		}, testTimeout, tick, "killing %s", exe)
	}
	<-a.ended
	for _, path := range mountsBelow(b, a.dir) {
		if err := unix.Unmount(path, unix.MNT_DETACH); !errors.Is(err, unix.EINVAL) {
			require.NoError(b, err, path)
		}
	}
}

func copyFile(b *testing.B, to, from string) {
	b.Helper()
	source, err := os.Open(from)
	require.NoError(b, err)
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	require.NoError(b, err)
	_, err = io.Copy(target, source)
	require.NoError(b, errors.Join(err, target.Close()))
}

// freeAddress is an address of this machine at which nobody listens.
func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	require.NoError(b, listener.Close())
	return listener.Addr().String()
}

func port(b *testing.B, address string) string {
	b.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(b, err, fmt.Sprintf("%q", address))
	return port
}

// transcript is what an agent's processes wrote.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
