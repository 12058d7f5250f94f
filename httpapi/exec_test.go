package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// shell is a job of one process that does nothing.
func shell(id string) *nomad.Job {
	return agenttest.Job(id, "raw_exec", map[string]any{"command": "/bin/sleep", "args": []string{"1h"}})
}

// execPath is the path of a command in an allocation.
func execPath(alloc string, params ...string) string {
	v := url.Values{}
	for i := 0; i < len(params); i += 2 {
		v.Set(params[i], params[i+1])
	}
	return "/v1/client/allocation/" + alloc + "/exec?" + v.Encode()
}

func TestACommandIsRefusedBeforeTheConnectionBecomesAnother(t *testing.T) {
	w := newWorld(t, "raw_exec", "wasi")
	alloc := w.run(t, shell("shell"), "running").ID
	ended := w.run(t, agenttest.Job("ended", "raw_exec", map[string]any{"command": "/bin/true"}), "complete").ID
	for _, c := range []struct {
		name, path string
		status     int
		text       string
	}{
		{"no command", execPath(alloc, "task", "task"), 400, "command is not a JSON list of strings"},
		{"an empty command", execPath(alloc, "task", "task", "command", "[]"), 400, "command is not present"},
		{"a command that is not a list", execPath(alloc, "task", "task", "command", `"ls"`), 400, "command is not a JSON list of strings"},
		{"a terminal that is none", execPath(alloc, "task", "task", "command", `["ls"]`, "tty", "x"), 400, `tty value is not a boolean: "x"`},
		{"an unknown allocation", execPath("none", "task", "task", "command", `["ls"]`), 404, `Unknown allocation "none"`},
		{"an unknown task", execPath(alloc, "task", "none", "command", `["ls"]`), 400, `unknown task name "none"`},
		{"a task that has ended", execPath(ended, "task", "task", "command", `["ls"]`), 400, "Task not running"},
		{"no websocket", execPath(alloc, "command", `["ls"]`), 400, "websocket: the client is not using the websocket protocol"},
	} {
		r := w.get(t, c.path)
		require.Equal(t, c.status, r.status, "%s: %s", c.name, r.body)
		require.Contains(t, r.body, c.text, c.name)
		require.NotContains(t, r.body, "\n", c.name)
	}
}

// dial opens a command's websocket, and returns the answer's status too.
func (w *world) dial(t *testing.T, path string, header http.Header) (*websocket.Conn, int, error) {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.URL, "http")+path, header)
	require.NotNil(t, resp, "%v", err)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func TestACommandsMessagesAreNomads(t *testing.T) {
	w := newWorld(t, "raw_exec")
	alloc := w.run(t, shell("shell"), "running").ID
	conn, _, err := w.dial(t, execPath(alloc, "task", "task", "command", `["sh","-c","cat; echo oops >&2; exit 7"]`), nil)
	require.NoError(t, err)
	for _, message := range []string{`{}`, `{"stdin":{"data":"aGVsbG8="}}`, `{"tty_size":{"height":33,"width":101}}`, `{"stdin":{"close":true}}`} {
		require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(message)))
	}
	var got []string
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			require.True(t, websocket.IsCloseError(err, websocket.CloseNormalClosure), "%v", err)
			break
		}
		require.Equal(t, websocket.TextMessage, kind)
		if text := strings.TrimSpace(string(message)); text != "{}" { // there is a heartbeat
			got = append(got, text)
		}
	}
	require.ElementsMatch(t, []string{`{"stdout":{"data":"aGVsbG8="}}`, `{"stderr":{"data":"b29wcwo="}}`, `{"exited":true,"result":{"exit_code":7}}`}, got)
	require.Equal(t, `{"exited":true,"result":{"exit_code":7}}`, got[len(got)-1])
}

func TestNomadsClientRunsCommands(t *testing.T) {
	w := newWorld(t, "raw_exec")
	stub := w.run(t, shell("shell"), "running")
	alloc, _, err := w.Client.Allocations().Info(stub.ID, nil)
	require.NoError(t, err)
	exec := func(tty bool, stdin io.Reader, sizes chan nomad.TerminalSize, command ...string) (int, string, string, error) {
		var stdout, stderr bytes.Buffer
		code, err := w.Client.Allocations().Exec(context.Background(), alloc, "task", tty, command, stdin, &stdout, &stderr, sizes, nil)
		return code, stdout.String(), stderr.String(), err
	}
	code, stdout, stderr, err := exec(false, strings.NewReader("hello"), nil, "sh", "-c", "cat; echo oops >&2; exit 7")
	require.NoError(t, err)
	require.Equal(t, []any{7, "hello", "oops\n"}, []any{code, stdout, stderr})

	sizes := make(chan nomad.TerminalSize, 1)
	sizes <- nomad.TerminalSize{Height: 33, Width: 101}
	keyboard, typist := io.Pipe() // nobody types: the client sends input and sizes in any order
	t.Cleanup(func() { _ = typist.Close() })
	_, stdout, _, err = exec(true, keyboard, sizes, "stty", "size")
	require.NoError(t, err)
	require.Contains(t, stdout, "33 101\r\n", "the size that came first is there from the start")

	_, _, _, err = exec(false, strings.NewReader(""), nil, "no-such-command")
	require.ErrorContains(t, err, "command no-such-command is not on the task's PATH")
	_, _, _, err = exec(false, strings.NewReader(""), nil, strings.Repeat("ü", 200))
	require.EqualError(t, err, "command "+strings.Repeat("ü", 56)+"…", "a websocket's last message is short")
}

func TestAnotherSitesPageRunsNoCommands(t *testing.T) {
	w := newWorld(t, "raw_exec")
	alloc := w.run(t, shell("shell"), "running").ID
	path := execPath(alloc, "task", "task", "command", `["true"]`)
	_, status, err := w.dial(t, path, http.Header{"Origin": {"https://example.com"}})
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	require.Equal(t, http.StatusForbidden, status)
	_, _, err = w.dial(t, path, http.Header{"Origin": {w.URL}})
	require.NoError(t, err)
}

func TestAnAgentThatEndsEndsItsCommands(t *testing.T) {
	var conn *websocket.Conn
	t.Run("an agent", func(t *testing.T) {
		w := newWorld(t, "raw_exec")
		alloc := w.run(t, shell("shell"), "running").ID
		var err error
		conn, _, err = websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.URL, "http")+execPath(alloc, "task", "task", "command", `["cat"]`), nil) //nolint:bodyclose // a websocket's answer has none
		require.NoError(t, err)
	})
	_, _, err := conn.ReadMessage()
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
	require.Error(t, err)
	require.NoError(t, conn.Close())
}
