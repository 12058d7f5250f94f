package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// onAMachine finds the blocks of the page of installation that are to be run.
var onAMachine = regexp.MustCompile("(?m)^<!-- run on a machine of its own -->\n```sh\n((?s:.*?))^```$")

// said is what a command of the page has to say, by how it begins. One that tells of what happens
// beside it is asked again until it does.
var said = []struct{ command, says string }{
	{"sha256sum", "_amd64.deb: OK"},
	{"sudo apt install", "Setting up wasmnode"},
	{"wasmnode node status", "Status          = ready"},
	{"sudo wasmnode doctor", "it answers at unix:///run/wasmnode/api.sock"},
	{"wasmnode plugin status", "wasi.wasm"},
	{"wasmnode job run", "is running"},
	{"wasmnode alloc logs", `"word": "the"`},
	{"wasmnode node drain", "Drain complete"},
	{"sudo wasmnode operator end-tasks", "Nothing runs any more"},
	{"wasmnode version", laterVersion},
	{"sudo apt remove", "Removing wasmnode"},
	{"sudo apt purge", "is still in /var/lib/wasmnode"},
}

// operator is somebody who has a new Debian, what is published, and the page of installation.
type operator struct {
	*machine
	exports string // what was typed of these, and is in the profile
	walk    strings.Builder
}

// TestANewOperatorFollowsThePage runs the page of installation from its top to its end, each command
// typed by a user with sudo who has just logged in, on a system on which nothing was done before.
func TestANewOperatorFollowsThePage(t *testing.T) {
	published(t)
	debian := os.Getenv("WASMNODE_DEBIAN")
	if debian == "" {
		guestbuild.Missing(t, "WASMNODE_DEBIAN names no directory with a new Debian: make dist-check")
	}
	o := &operator{machine: newMachineOf(t, filepath.Join(debian, "root"), later(t)+":/later")}
	o.do(`useradd -m -s /bin/bash alice
		echo 'alice ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/alice
		echo 'APT::Get::Assume-Yes "true";' > /etc/apt/apt.conf.d/yes # a person types it
		echo "127.0.1.1 $(hostname)" >> /etc/hosts
		cp /dist/*_amd64.deb /dist/SHA256SUMS ~alice`)
	page, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	blocks := onAMachine.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			o.types(strings.TrimSpace(line))
		}
	}
	require.Empty(t, o.left(), "no process, mount or cgroup")
	t.Logf("what was typed, and how long it took:\n%s", &o.walk)
}

// types runs one command of the page.
func (o *operator) types(line string) {
	o.t.Helper()
	command, _, _ := strings.Cut(line, " #")
	if command = strings.TrimSpace(command); strings.HasPrefix(command, "export ") {
		o.exports += command + "\n"
		return
	}
	if strings.HasPrefix(command, "sudo apt install") && strings.Contains(o.exports, "NOMAD_ADDR") { // it is installed: this is the newer one
		o.do("rm ~alice/*.deb; cp /later/*_amd64.deb ~alice")
	}
	began := time.Now()
	says := o.expected(command)
	var out []byte
	tries := 0
	require.Eventually(o.t, func() bool {
		var err error
		tries++
		out, err = o.asAlice(command)
		if says == "" {
			require.NoError(o.t, err, "%s\n%s", command, out)
		}
		return err == nil && strings.Contains(string(out), says)
	}, time.Minute, 100*time.Millisecond, "%s: %s", command, lazy{&out})
	fmt.Fprintf(&o.walk, "%6.1f s  %s", time.Since(began).Seconds(), command)
	if tries > 1 {
		fmt.Fprintf(&o.walk, "   (typed %d times)", tries)
	}
	o.walk.WriteString("\n")
	if strings.HasPrefix(command, "wasmnode alloc logs") {
		o.looksAtThePage()
		o.asksTheDoctor()
	}
}

// expected is what a command has to say.
func (o *operator) expected(command string) string {
	for _, s := range said {
		if strings.HasPrefix(command, s.command) {
			return s.says
		}
	}
	return ""
}

// asAlice runs a command in a new login, without a terminal and with nobody to answer.
func (o *operator) asAlice(command string) ([]byte, error) {
	cmd := exec.CommandContext(o.t.Context(), "nsenter", "-t", o.leader, "-a", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"su", "-", "alice", "-c", o.exports+"export USER=alice\n"+command)
	return cmd.CombinedOutput()
}

// asksTheDoctor without root: the node is root's, and that is no fault.
func (o *operator) asksTheDoctor() {
	o.t.Helper()
	out, err := o.asAlice("wasmnode doctor | tr -s ' '")
	require.NoError(o.t, err, "%s", out)
	require.Contains(o.t, string(out), "warning data data_dir user")
	require.NotContains(o.t, string(out), "\nfailed ")
}

// forwarded is a socket, as ssh -L has it.
func forwarded(socket string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: r.In.Host})
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
}

// looksAtThePage as a browser does to which the socket is forwarded, with a picture of it where
// WASMNODE_PICTURES names a directory.
func (o *operator) looksAtThePage() {
	o.t.Helper()
	socket := filepath.Join("/proc", o.leader, "root/run/wasmnode/api.sock")
	forward := httptest.NewServer(forwarded(socket))
	defer forward.Close()
	address := forward.URL + "/ui/"
	began := time.Now()
	answer, err := http.Get(address)
	require.NoError(o.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(o.t, err)
	require.Contains(o.t, string(text), ">hello<", "the job is on it")
	fmt.Fprintf(&o.walk, "%6.1f s  (the page)\n", time.Since(began).Seconds())
	if dir := os.Getenv("WASMNODE_PICTURES"); dir != "" {
		enginetest.Program(o.t, "chromium", "chromium")
		for _, page := range []string{"", "plugins", "jobs/hello@default"} {
			output(o.t, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--virtual-time-budget=3000", "--user-data-dir="+o.t.TempDir(),
				"--window-size=1000,900", "--screenshot="+filepath.Join(dir, "operator-"+strings.NewReplacer("/", "-", "@", "-").Replace(page)+".png"), address+page)
		}
	}
}
