package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// counting is a node that runs nothing, and counts what it is asked to do.
type counting struct {
	idle
	collected, executed atomic.Int64
}

func (c *counting) CollectGarbage(context.Context)                  { c.collected.Add(1) }
func (c *counting) CollectAllocation(context.Context, string) error { c.collected.Add(1); return nil }
func (c *counting) RestartAllocation(ctx context.Context, _, _ string, _ bool) error {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
	return ctx.Err()
}
func (c *counting) CanExec(string, string) error { return nil }
func (c *counting) Exec(context.Context, string, string, *workload.ExecSpec) (*structs.ExitResult, error) {
	c.executed.Add(1)
	return &structs.ExitResult{}, nil
}

// guarded is the API of a node with a job and its allocation, without an agent.
type guarded struct {
	*httptest.Server
	config httpapi.Config
	plane  *standalone.ControlPlane
	node   *counting
	alloc  string // its ID
}

func serveGuarded(t *testing.T, change func(*httpapi.Config)) *guarded {
	t.Helper()
	g := &guarded{plane: plane(t), node: &counting{}}
	_, err := g.plane.ForNode().Register(t.Context(), &structs.Node{
		ID: "node", Name: "here", Datacenter: "dc1", Pool: "default", Status: structs.NodeReady,
		Resources: structs.NodeResources{CPUMHz: 1000, MemoryMB: 1000, DiskMB: 1000},
		Drivers:   map[string]*structs.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
	})
	require.NoError(t, err)
	_, err = g.plane.RegisterJob(&structs.JobRegistration{Job: mock("mine", nil)})
	require.NoError(t, err)
	g.alloc = g.plane.Allocations()[0].ID
	cfg := httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: g.plane, Node: g.node, Plugins: noPlugins{}, Metrics: prometheus.NewRegistry(),
		Agent:      httpapi.AgentInfo{NodeID: "node", Name: "here", Region: "global", Datacenter: "dc1", Address: "127.0.0.1:4646"},
		Conditions: func() []structs.Condition { return nil },
	}
	if change != nil {
		change(&cfg)
	}
	g.config = cfg
	g.Server = httptest.NewUnstartedServer(httpapi.Handler(cfg))
	g.Config.ConnContext = access.ConnContext
	if cfg.Bounds != nil {
		g.Listener = cfg.Bounds.Listener(g.Listener)
	}
	g.Start()
	t.Cleanup(g.Close)
	return g
}

// send sends a request; its headers are pairs of a name and a value.
func (g *guarded) send(t *testing.T, method, path, body string, headers ...string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// dial opens a connection of its own, until the test ends.
func (g *guarded) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", g.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

func jobJSON(t *testing.T, id string) string {
	t.Helper()
	b, err := json.Marshal(nomad.JobRegisterRequest{Job: mock(id, nil)})
	require.NoError(t, err)
	return string(b)
}

func TestAForeignPageChangesNothing(t *testing.T) {
	g := serveGuarded(t, nil)
	for name, headers := range map[string][]string{
		"a foreign origin":     {"Origin", "http://evil.test", "Sec-Fetch-Site", "cross-site"},
		"another port":         {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
		"an origin of null":    {"Origin", "null"},
		"its own name":         {"Host", "evil.test:4646", "Origin", "http://evil.test:4646", "Sec-Fetch-Site", "same-origin"},
		"its own name, untold": {"Host", "evil.test"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range [][2]string{
				{http.MethodPost, "/v1/jobs"}, {http.MethodPut, "/v1/jobs"}, {http.MethodDelete, "/v1/job/mine"}, {http.MethodPut, "/v1/system/gc"},
				{http.MethodGet, "/v1/client/gc"}, {http.MethodGet, "/v1/client/allocation/" + g.alloc + "/gc"},
				{http.MethodGet, "/v1/client/fs/logs/" + g.alloc + "?task=task&type=stdout&follow=true"}, {http.MethodGet, "/v1/jobs"}, {http.MethodGet, "/none"},
			} {
				status, text := g.send(t, r[0], r[1], jobJSON(t, "theirs"), append(headers, "Content-Type", "text/plain")...)
				require.Equal(t, http.StatusForbidden, status, "%s: %s", r, text)
				require.NotContains(t, text, "\n")
			}
			header := http.Header{}
			for i := 0; i < len(headers); i += 2 {
				header.Set(headers[i], headers[i+1])
			}
			_, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(g.URL, "http")+"/v1/client/allocation/"+g.alloc+`/exec?command=["true"]`, header)
			require.ErrorIs(t, err, websocket.ErrBadHandshake)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusForbidden, resp.StatusCode)
		})
	}
	require.Nil(t, g.plane.Job("default", "theirs"))
	require.NotNil(t, g.plane.Job("default", "mine"))
	require.Zero(t, g.node.collected.Load())
	require.Zero(t, g.node.executed.Load())
}

func TestNomadsClientCollectsByGETAndBrowsersDoNot(t *testing.T) {
	g := serveGuarded(t, nil)
	client, err := nomad.NewClient(&nomad.Config{Address: g.URL})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.Nodes().GC("node", nil))
	require.NoError(t, client.Allocations().GC(&nomad.Allocation{ID: g.alloc}, nil))
	require.EqualValues(t, 2, g.node.collected.Load())
	for _, path := range []string{"/v1/client/gc", "/v1/client/allocation/" + g.alloc + "/gc"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			status, _ := g.send(t, method, path, "", "User-Agent", "Mozilla/5.0")
			require.Equal(t, http.StatusForbidden, status)
		}
		status, text := g.send(t, http.MethodPut, path, "", "User-Agent", "Mozilla/5.0", "Origin", g.URL, "Sec-Fetch-Site", "same-origin")
		require.Equal(t, http.StatusOK, status, text)
	}
	require.EqualValues(t, 4, g.node.collected.Load())
}

func TestANodeIsAskedByTheNamesThatItIsGiven(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.Hosts = []string{"node7.example"} })
	status, _ := g.send(t, http.MethodGet, "/v1/jobs", "", "Host", "node7.example:4646")
	require.Equal(t, http.StatusOK, status)
	status, text := g.send(t, http.MethodGet, "/v1/jobs", "", "Host", "node8.example")
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, `this node does not go by the name "node8.example": ask it by its address, or have its operator add the name to http_hosts`, text)
}

// token makes a token and returns its secret.
func (g *guarded) token(t *testing.T, kind string, policies ...string) (secret string) {
	t.Helper()
	_, secret, err := g.plane.CreateACLToken(&structs.ACLToken{Type: kind, Policies: policies}, 0)
	require.NoError(t, err)
	return secret
}

func TestWhatEachTokenMayAsk(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	reader, manager := g.token(t, structs.ACLClient, structs.ACLReadOnly), g.token(t, structs.ACLManagement)
	const denied, notFound = "Permission denied", "ACL token not found"
	for _, c := range []struct {
		method, path   string
		anyone, reader bool
	}{
		{http.MethodGet, "/v1/agent/health", true, true},
		{http.MethodGet, "/v1/status/leader", true, true},
		{http.MethodGet, "/v1/regions", true, true},
		{http.MethodGet, "/v1/metrics", true, true},
		{http.MethodGet, "/v1/none", true, true},
		{http.MethodGet, "/v1/jobs", false, true},
		{http.MethodHead, "/v1/jobs", false, true},
		{http.MethodGet, "/v1/job/mine", false, true},
		{http.MethodGet, "/v1/node/node", false, true},
		{http.MethodGet, "/v1/agent/self", false, true},
		{http.MethodGet, "/v1/agent/plugins", false, true},
		{http.MethodGet, "/v1/agent/plugin/x/logs", false, true},
		{http.MethodGet, "/v1/agent/plugin/x/trace", false, true},
		{http.MethodGet, "/v1/agent/plugin/x/record", false, false},
		{http.MethodGet, "/v1/client/stats", false, true},
		{http.MethodGet, "/v1/client/fs/ls/x", false, true},
		{http.MethodGet, "/v1/client/fs/logs/x", false, true},
		{http.MethodGet, "/v1/acl/policies", false, true},
		{http.MethodGet, "/v1/acl/policy/readonly", false, true},
		{http.MethodPut, "/v1/search", false, true},
		{http.MethodPut, "/v1/validate/job", false, true},
		{http.MethodGet, "/v1/acl/tokens", false, false},
		{http.MethodPut, "/v1/acl/token", false, false},
		{http.MethodDelete, "/v1/acl/token/x", false, false},
		{http.MethodGet, "/v1/vars", false, false},
		{http.MethodGet, "/v1/var/a/b", false, false},
		{http.MethodHead, "/v1/var/a/b", false, false},
		{http.MethodPut, "/v1/var/a/b", false, false},
		{http.MethodDelete, "/v1/var/a/b", false, false},
		{http.MethodGet, "/v1/operator/keyring/keys", false, false},
		{http.MethodPut, "/v1/operator/keyring/rotate", false, false},
		{http.MethodDelete, "/v1/operator/keyring/key/x", false, false},
		{http.MethodPut, "/v1/jobs", false, false},
		{http.MethodPost, "/v1/jobs", false, false},
		{http.MethodPut, "/v1/job/mine/evaluate", false, false},
		{http.MethodPut, "/v1/allocation/x/stop", false, false},
		{http.MethodPut, "/v1/node/node/eligibility", false, false},
		{http.MethodPut, "/v1/client/allocation/x/restart", false, false},
		{http.MethodPut, "/v1/client/allocation/x/signal", false, false},
		{http.MethodGet, "/v1/client/allocation/" + g.alloc + "/exec", false, false},
		{http.MethodGet, "/v1/client/gc", false, false},
		{http.MethodPut, "/v1/system/gc", false, false},
		{http.MethodDelete, "/v1/job/mine", false, false},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			for _, who := range []struct {
				served bool
				want   string
				header []string
			}{
				{c.anyone, denied, nil},
				{c.anyone, denied, []string{"Authorization", "Basic " + manager}},
				{c.anyone, notFound, []string{access.TokenHeader, "00000000-0000-0000-0000-000000000000"}},
				{c.reader, denied, []string{access.TokenHeader, reader}},
				{c.reader, denied, []string{"Authorization", "Bearer " + reader}},
				{true, "", []string{access.TokenHeader, manager}},
				{true, "", []string{"Authorization", "Bearer " + manager}},
			} {
				status, text := g.send(t, c.method, c.path, "", who.header...)
				if who.served {
					require.NotEqual(t, http.StatusForbidden, status, "%v: %s", who.header, text)
					continue
				}
				require.Equal(t, http.StatusForbidden, status, who.header)
				if c.method != http.MethodHead {
					require.Equal(t, who.want, text)
				}
			}
		})
	}
}

// The tokens' own API, as Nomad's Go client uses it.
func TestTokensByNomadsClient(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	as := func(secret string) *nomad.ACLTokens {
		client, err := nomad.NewClient(&nomad.Config{Address: g.URL, SecretID: secret})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return client.ACLTokens()
	}
	fails := func(err error, status int, text string) {
		t.Helper()
		var answer nomad.UnexpectedResponseError
		require.ErrorAs(t, err, &answer)
		require.Equal(t, text, answer.Body())
		require.Equal(t, status, answer.StatusCode())
	}
	first, _, err := as("").Bootstrap(nil)
	require.NoError(t, err)
	require.Equal(t, "management", first.Type)
	_, _, err = as("").Bootstrap(nil)
	fails(err, http.StatusBadRequest, fmt.Sprintf("ACL bootstrap already done (reset index: %d)", first.CreateIndex))

	made, _, err := as(first.SecretID).Create(&nomad.ACLToken{Name: "watcher", Type: "client", Policies: []string{"readonly"}, ExpirationTTL: time.Hour}, nil)
	require.NoError(t, err)
	require.NotEmpty(t, made.SecretID)
	require.WithinDuration(t, made.CreateTime.Add(time.Hour), *made.ExpirationTime, 0)
	_, _, err = as(made.SecretID).Create(&nomad.ACLToken{Type: "management"}, nil)
	fails(err, http.StatusForbidden, "Permission denied")
	_, _, err = as(first.SecretID).Create(&nomad.ACLToken{Type: "client", Roles: []*nomad.ACLTokenRoleLink{{Name: "x"}}}, nil)
	fails(err, http.StatusBadRequest, "cannot find role x")

	self, _, err := as(made.SecretID).Self(nil)
	require.NoError(t, err)
	require.Equal(t, made, self)
	_, _, err = as("").Self(nil)
	fails(err, http.StatusForbidden, "ACL token not found")
	own, _, err := as(made.SecretID).Info(made.AccessorID, nil)
	require.NoError(t, err)
	require.Equal(t, "watcher", own.Name)
	require.Empty(t, own.SecretID, "the node does not know it")
	_, _, err = as(made.SecretID).Info(first.AccessorID, nil)
	fails(err, http.StatusForbidden, "Permission denied")
	_, _, err = as(first.SecretID).Info("none", nil)
	fails(err, http.StatusNotFound, "ACL token not found")

	list, _, err := as(first.SecretID).List(nil)
	require.NoError(t, err)
	require.Len(t, list, 2)
	own.Name = "guard"
	renamed, _, err := as(first.SecretID).Update(own, nil)
	require.NoError(t, err)
	require.Equal(t, "guard", renamed.Name)
	_, _, err = as(made.SecretID).Update(own, nil)
	fails(err, http.StatusForbidden, "Permission denied")
	other := *own
	other.ExpirationTTL = 2 * time.Hour
	_, _, err = as(first.SecretID).Update(&other, nil)
	fails(err, http.StatusBadRequest, "cannot update expiration TTL of "+own.AccessorID)
	other = *own
	other.ExpirationTime = new(own.ExpirationTime.Add(time.Hour))
	_, _, err = as(first.SecretID).Update(&other, nil)
	fails(err, http.StatusBadRequest, "cannot update expiration time of "+own.AccessorID)
	other = *own
	other.Global = true
	_, _, err = as(first.SecretID).Update(&other, nil)
	fails(err, http.StatusBadRequest, "cannot toggle global mode of "+own.AccessorID)
	own.Type = "management"
	_, _, err = as(first.SecretID).Update(own, nil)
	fails(err, http.StatusBadRequest, "management token cannot be associated with policies or roles")
	own.Policies = nil
	_, _, err = as(first.SecretID).Update(own, nil)
	require.NoError(t, err)
	_, _, err = as(made.SecretID).Info(first.AccessorID, nil)
	require.NoError(t, err, "what it may do is what it is now, with the same secret")
	_, err = as(first.SecretID).Delete(made.AccessorID, nil)
	require.NoError(t, err)
	_, _, err = as(made.SecretID).Self(nil)
	fails(err, http.StatusForbidden, "ACL token not found")

	g = serveGuarded(t, nil)
	_, _, err = as(first.SecretID).List(nil)
	fails(err, http.StatusBadRequest, "ACL support disabled")
	_, _, err = as("").Bootstrap(nil)
	fails(err, http.StatusBadRequest, "ACL support disabled")
}

func TestTheFirstTokenIsMadeOnTheMachineItself(t *testing.T) {
	s := plane(t)
	h := httpapi.Handler(httpapi.Config{Logger: hclog.NewNullLogger(), ControlPlane: s, ACL: true})
	ask := func(address string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPut, "http://localhost/v1/acl/bootstrap", nil)
		r.RemoteAddr = address
		for _, name := range headers {
			r.Header.Set(name, "192.0.2.7")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, address := range []string{"192.0.2.7:1234", "[2001:db8::1]:1"} {
		require.Equal(t, http.StatusForbidden, ask(address).Code, address)
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"} {
		require.Equal(t, http.StatusForbidden, ask("127.0.0.1:1234", name).Code, "a proxy's: %s", name)
		require.Equal(t, http.StatusForbidden, ask("@", name).Code, "a proxy's: %s", name)
	}
	require.Empty(t, s.ACLTokens())
	require.Equal(t, http.StatusOK, ask("127.0.0.1:1234").Code)
	for _, address := range []string{"[::1]:1", "@", ""} { // the last two are a socket's
		require.Contains(t, ask(address).Body.String(), "ACL bootstrap already done", address)
	}
}

// small are bounds that are soon reached.
func small() *access.Bounds {
	l := access.DefaultLimits()
	l.Reads, l.Bodies, l.Streams, l.Connections, l.Patience, l.Body = 2, 2, 2, 6, time.Millisecond, 24*time.Hour
	return access.NewBounds(l)
}

// refused is how many requests were refused for a reason.
func refused(t *testing.T, b *access.Bounds, reason string) int {
	t.Helper()
	return measured(t, b, "wasmnode_http_refused_total", reason)
}

// measured is a metric of the bounds; 0: there is none with that label.
func measured(t *testing.T, b *access.Bounds, name, label string) int {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(b)
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && m.Label[0].GetValue() == label {
				return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return 0
}

func TestStalledBodiesKeepNobodyElseOut(t *testing.T) {
	bounds := small()
	g := serveGuarded(t, func(c *httpapi.Config) { c.Bounds = bounds })
	var stalled []net.Conn
	for range 2 {
		c := g.dial(t)
		_, err := io.WriteString(c, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		stalled = append(stalled, c)
	}
	require.Eventually(t, func() bool {
		status, text := g.send(t, http.MethodPut, "/v1/search", `{"Context":"all"}`)
		return status == http.StatusTooManyRequests && text == "the node serves as many bodies as it can at once: try again later"
	}, time.Minute, time.Millisecond)
	require.Positive(t, refused(t, bounds, "bodies"))
	status, _ := g.send(t, http.MethodGet, "/v1/jobs", "")
	require.Equal(t, http.StatusOK, status)
	for _, c := range stalled {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		status, _ := g.send(t, http.MethodPut, "/v1/search", `{"Context":"all"}`)
		return status == http.StatusOK
	}, time.Minute, time.Millisecond, "what has ended makes room")
}

func TestABodyThatDoesNotArriveEndsTheRequest(t *testing.T) {
	l := access.DefaultLimits()
	l.Body = 10 * time.Millisecond
	g := serveGuarded(t, func(c *httpapi.Config) { c.Bounds = access.NewBounds(l) })
	for path, want := range map[string]string{
		"/v1/jobs": "HTTP/1.1 408 Request Timeout\r\n",
		"/v1/none": "HTTP/1.1 404 Not Found\r\n", // nobody reads it
	} {
		c := g.dial(t)
		_, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err, "the connection ends")
	}
	// An answer may take longer than a body.
	status, text := g.send(t, http.MethodPut, "/v1/client/allocation/"+g.alloc+"/restart", "{}")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"Index":0}`, text)
}

func TestWatchersAreBounded(t *testing.T) {
	bounds := small()
	g := serveGuarded(t, func(c *httpapi.Config) { c.Bounds = bounds })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	watch := "/v1/jobs?index=1000000" // far above what is to come
	for range 2 {
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+watch, nil)
			if err == nil {
				var resp *http.Response
				if resp, err = g.Client().Do(req); err == nil {
					err = resp.Body.Close()
				}
			}
			ended <- err
		}()
	}
	require.Eventually(t, func() bool { return measured(t, bounds, "wasmnode_http_in_flight", "streams") == 2 }, time.Minute, time.Millisecond,
		"one that came before them would keep them out")
	status, _ := g.send(t, http.MethodGet, watch+"&wait=1ms", "")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, 1, refused(t, bounds, "streams"))
	status, _ = g.send(t, http.MethodGet, "/v1/jobs", "")
	require.Equal(t, http.StatusOK, status)
	cancel()
	for range 2 {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	bounds := small()
	g := serveGuarded(t, func(c *httpapi.Config) { c.Bounds = bounds })
	ask := func(c net.Conn) (status string) {
		_, err := io.WriteString(c, "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(line)
	}
	var open []net.Conn
	for range 6 {
		c := g.dial(t)
		require.Equal(t, "HTTP/1.1 200 OK", ask(c))
		open = append(open, c)
	}
	more := g.dial(t)
	require.Equal(t, "HTTP/1.1 429 Too Many Requests", ask(more))
	require.Equal(t, 1, refused(t, bounds, "connections"))
	_, err := io.Copy(io.Discard, more)
	require.NoError(t, err, "it is closed")
	require.NoError(t, open[0].Close())
	require.Eventually(t, func() bool {
		c := g.dial(t)
		return ask(c) == "HTTP/1.1 200 OK"
	}, time.Minute, time.Millisecond)
}

// found is a node with the directory of an allocation that only it knows.
type found struct {
	idle
	logs string
}

func (f *found) Files(string) (clientapi.Files, error) { return logsIn{logs: f.logs}, nil }

// logsIn are files of which nothing but the logs is read.
type logsIn struct {
	clientapi.Files
	logs string
}

func (l logsIn) LogPath(task, stream string) string {
	return filepath.Join(l.logs, task+"."+stream)
}

func TestLogsOfAnUnknownAllocationStayInItsDirectory(t *testing.T) {
	above := t.TempDir()
	logs := filepath.Join(above, "alloc", "logs")
	require.NoError(t, os.MkdirAll(logs, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(logs, "task.stdout.0"), []byte("its own"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(above, "other.stdout.0"), []byte("another's"), 0o600))
	g := serveGuarded(t, func(c *httpapi.Config) { c.Node = &found{logs: logs} })
	read := func(task string) (int, string) {
		return g.send(t, http.MethodGet, "/v1/client/fs/logs/unknown?plain=true&type=stdout&task="+url.QueryEscape(task), "")
	}
	status, text := read("task")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "its own", text)
	for _, task := range []string{"../../other", "../logs/task", above + "/other", "./task"} {
		status, text = read(task)
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", task, text)
		require.Contains(t, text, "unknown task name")
	}
}

func TestNobodyWithoutATokenWaits(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	for path, want := range map[string]int{
		"/v1/agent/health":     http.StatusOK,
		"/v1/regions":          http.StatusOK,
		"/v1/status/leader":    http.StatusOK,
		"/v1/acl/token/self":   http.StatusForbidden,
		"/v1/acl/token/others": http.StatusForbidden,
		"/v1/jobs":             http.StatusForbidden,
	} {
		began := time.Now()
		status, text := g.send(t, http.MethodGet, path+"?index=1000000&wait=1m", "")
		require.Equal(t, want, status, "%s: %s", path, text)
		require.Less(t, time.Since(began), time.Minute, path)
	}
}
