package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// locksOnTheCommandLine is of a node that has no locks.
func locksOnTheCommandLine(t *testing.T, n *node) {
	t.Helper()
	dir := t.TempDir()
	spec := write(t, filepath.Join(dir, "lock.json"), `{"Path": "lock/file", "Items": {"a": "b"}, "Lock": {"TTL": "30s"}}`)
	assert.Equal(t, result{7, "in a shell\n", ""}, n.run(t, "var", "lock", "@"+spec, "echo in a", "shell; exit 7"))
	assert.Equal(t, result{128 + 9, "", ""}, n.run(t, "var", "lock", "lock/file", "kill -9 $$"))
	assert.Equal(t, result{0, "$x ;\n", ""}, n.run(t, "var", "lock", "-shell=false", "lock/file", "echo", "$x", ";"))
	r := n.run(t, "var", "lock", "-verbose", "lock/file", "true")
	assert.Equal(t, result{0, "", "Attempting to acquire lock\nVariable locked, ready to execute: true\nReleasing the lock\n"}, r)
	assert.Equal(t, "b", n.out(t, "var", "get", "-item", "a", "lock/file"), "its items stay")

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	held := n.command("var", "lock", "lock/file", "echo held; read line <"+pipe+"; echo $line")
	stdout, err := held.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, held.Start())
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	r = n.run(t, "var", "lock", "-early-return", "lock/file", "echo no")
	assert.Equal(t, result{0, "", "Variable \"lock/file\" is locked by somebody else: nothing is run\n"}, r)
	for _, args := range [][]string{{"var", "put", "-force", "lock/file", "a=c"}, {"var", "put", "lock/file", "a=c", "-check-index=0"}, {"var", "purge", "lock/file"}} {
		r = n.run(t, args...)
		assert.Equal(t, 1, r.code)
	}
	assert.Equal(t, "Error: attempting to modify locked variable \"lock/file\": its holder has to let go of it, or not to renew it for 45s\n", r.stderr)
	require.NoError(t, os.WriteFile(pipe, []byte("end\n"), 0))
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "end\n", line)
	require.NoError(t, held.Wait())
	for want, args := range map[string][]string{
		"there is no command to run":                             {"a", "@" + spec},
		"TTL must be between 10 seconds and 24 hours":            {"-ttl=9s", "a", "true"},
		`invalid path "a.b"`:                                     {"a.b", "true"},
		"Unable to determine format of x: its name ends in .hcl": {"@x", "true"},
		"wildcard namespace":                                     {"-namespace=*", "a", "true"},
		"executable file not found":                              {"-shell=false", "lock/file", "no-such-program"},
		`invalid value "soon" for flag -ttl`:                     {"-ttl=soon", "a", "true"},
		"takes 2 to 1000 arguments, not 1":                       {"a"},
	} {
		r := n.run(t, append([]string{"var", "lock"}, args...)...)
		assert.Equal(t, 1, r.code, want)
		assert.Contains(t, r.stderr, want)
	}
	n.out(t, "var", "purge", "lock/file")
}

// A command whose lock is lost is killed with what it started, and a renewal that fails is tried
// again, as often as it is to be.
func TestACommandThatLosesItsLockIsKilled(t *testing.T) {
	for name, c := range map[string]struct {
		status, retries, asked int
		said                   string
	}{
		"somebody took it": {http.StatusConflict, 5, 1, `the lock of variable "a" is lost, and the command was killed: somebody`},
		"no retries":       {http.StatusInternalServerError, 0, 1, `the lock of variable "a" could not be renewed, and the command was killed: somebody`},
		"until it is lost": {http.StatusInternalServerError, 5, 2, `the lock of variable "a" could not be renewed`},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				http.Error(w, "somebody", c.status)
			}))
			defer server.Close()
			client, err := nomad.NewClient(&nomad.Config{Address: server.URL})
			require.NoError(t, err)
			defer client.Close()
			file := filepath.Join(t.TempDir(), "pid")
			l := &varLock{shell: true, command: []string{"sleep 1000 & echo $! >" + file + ".new; mv " + file + ".new " + file + "; wait"}}
			l.lease = lockLease{
				variables: client.Variables(), ttl: 300 * time.Millisecond, retries: c.retries, renewed: time.Now(),
				variable: &nomad.Variable{Path: "a", Lock: &nomad.VariableLock{ID: "x"}},
			}
			code, err := l.run(t.Context())
			require.Equal(t, 1, code)
			require.ErrorContains(t, err, c.said)
			require.GreaterOrEqual(t, int(asked.Load()), c.asked)
			if content, err := os.ReadFile(file); err == nil { // it came that far
				pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
				require.NoError(t, err)
				require.Eventually(t, func() bool { return !alive(pid) }, testTimeout, tick)
			}
		})
	}
}
