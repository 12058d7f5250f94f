package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// shake opens a command's websocket without a header for a token, and says a first message.
func (g *guarded) shake(t *testing.T, path, first string, headers ...string) (conn *websocket.Conn, status int) {
	t.Helper()
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	conn, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(g.URL, "http")+path, header)
	require.NotNil(t, resp, "%v", err)
	require.NoError(t, resp.Body.Close())
	if err != nil {
		return nil, resp.StatusCode
	}
	t.Cleanup(func() { _ = conn.Close() })
	if first != "" {
		require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(first)))
	}
	return conn, resp.StatusCode
}

// ended reads what comes until a websocket is closed, and returns how.
func ended(t *testing.T, conn *websocket.Conn) *websocket.CloseError {
	t.Helper()
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			var closed *websocket.CloseError
			require.ErrorAs(t, err, &closed)
			return closed
		}
	}
}

func hello(secret string) string { return `{"version":1,"auth_token":` + quoted(secret) + `}` }

func TestATokenMayComeWithAWebsocketsFirstMessage(t *testing.T) {
	d := divide(t)
	_, err := d.client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "exec", Rules: `namespace "mine" { capabilities = ["alloc-exec", "alloc-node-exec"] }`}, nil)
	require.NoError(t, err)
	executor := d.token(t, structs.ACLClient, "exec")
	mine, theirs := d.of["mine"].alloc, d.of["theirs"].alloc
	command := func(alloc string) string {
		return execPath(alloc, "task", "task", "command", `["true"]`, "ws_handshake", "true")
	}
	for name, c := range map[string]struct {
		path, first string
		headers     []string
		code        int // 0: it is executed
		text        string
	}{
		"a manager":                  {path: command(mine), first: hello(d.manager)},
		"who may execute there":      {path: command(mine), first: hello(executor)},
		"the same token in a header": {path: command(mine), first: hello(d.manager), headers: []string{"X-Nomad-Token", d.manager}},
		"who may not there":          {command(theirs), hello(executor), nil, 4403, "Permission denied"},
		"who reads":                  {command(mine), hello(d.reader), nil, 4403, "Permission denied"},
		"nobody":                     {command(mine), hello(""), nil, 4403, "Permission denied"},
		"an unknown token":           {command(mine), hello("11111111-2222-3333-4444-555555555555"), nil, 4403, "ACL token not found"},
		"another token":              {command(mine), hello(d.reader), []string{"X-Nomad-Token", d.manager}, 4400, "not the one of the header"},
		"another version":            {command(mine), `{"version":2,"auth_token":""}`, nil, 4400, "has the version 2"},
		"no handshake":               {command(mine), `hello`, nil, 4400, "no handshake"},
		"no command":                 {execPath(mine, "task", "task", "ws_handshake", "true"), hello(d.manager), nil, 4400, "command is not"},
		"no such allocation":         {command("none"), hello(d.manager), nil, 4404, "Unknown allocation"},
		"no such action":             {"/v1/job/web/action?namespace=mine&ws_handshake=1&task=task&action=none&allocID=" + mine, hello(d.manager), nil, 4404, "not found in task"},
		"an action, and nobody":      {"/v1/job/web/action?namespace=mine&ws_handshake=1&task=task&action=none&allocID=" + mine, hello(""), nil, 4403, "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.node.executed.Load()
			conn, status := d.shake(t, c.path, c.first, c.headers...)
			require.Equal(t, http.StatusSwitchingProtocols, status)
			end := ended(t, conn)
			if c.code == 0 {
				require.Equal(t, websocket.CloseNormalClosure, end.Code, end.Text)
				require.Equal(t, before+1, d.node.executed.Load())
				return
			}
			require.Equal(t, c.code, end.Code, end.Text)
			require.Contains(t, end.Text, c.text)
			require.Equal(t, before, d.node.executed.Load())
		})
	}
}

// TestWhoHasNoTokenYetGetsNothingElse asks with the word for a handshake for what is no command.
func TestWhoHasNoTokenYetGetsNothingElse(t *testing.T) {
	d := divide(t)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}
	for _, path := range []string{
		"/v1/jobs?ws_handshake=true", "/v1/job/web?namespace=mine&ws_handshake=true", "/v1/job/%2Faction?namespace=mine&ws_handshake=true",
		"/v1/job/web%2Faction/summary?namespace=mine&ws_handshake=true", "/v1/client/fs/ls/" + d.of["mine"].alloc + "?ws_handshake=true",
	} {
		require.Equal(t, http.StatusForbidden, d.asked(t, http.MethodGet, path, upgrade...).status, path)
	}
	path := execPath(d.of["mine"].alloc, "task", "task", "command", `["true"]`, "ws_handshake", "true")
	require.Equal(t, http.StatusForbidden, d.asked(t, http.MethodGet, path).status, "it is no websocket")
	for _, headers := range [][]string{
		{"Origin", "http://evil.test"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Host", "evil.test"},
	} {
		_, status := d.shake(t, path, hello(d.manager), headers...)
		require.Equal(t, http.StatusForbidden, status, "%v", headers)
	}
	require.Zero(t, d.node.executed.Load())
}

func TestFewWebsocketsWaitForATokenAtOnce(t *testing.T) {
	httpapi.SetHandshakeTime(t, time.Hour)
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	path := execPath(g.alloc, "task", "task", "command", `["true"]`, "ws_handshake", "true")
	var waiting []*websocket.Conn
	for range httpapi.MaxHandshakes {
		conn, status := g.shake(t, path, "")
		require.Equal(t, http.StatusSwitchingProtocols, status)
		waiting = append(waiting, conn)
	}
	_, status := g.shake(t, path, "")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.NoError(t, waiting[0].WriteMessage(websocket.TextMessage, []byte(hello(""))))
	require.Equal(t, 4403, ended(t, waiting[0]).Code)
	conn, status := g.shake(t, path, hello(""))
	require.Equal(t, http.StatusSwitchingProtocols, status, "the place of one that has spoken")
	require.Equal(t, 4403, ended(t, conn).Code)
}

func TestAWebsocketThatShowsNoTokenIsEnded(t *testing.T) {
	httpapi.SetHandshakeTime(t, time.Millisecond)
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	conn, status := g.shake(t, execPath(g.alloc, "task", "task", "command", `["true"]`, "ws_handshake", "true"), "")
	require.Equal(t, http.StatusSwitchingProtocols, status)
	end := ended(t, conn)
	require.Equal(t, 4400, end.Code)
	require.Contains(t, end.Text, "timeout")
}
