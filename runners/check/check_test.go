package check_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/runners/check"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

func ptr[T any](v T) *T { return &v }

// service has one check, changed by fn. It has all the time that a busy machine takes.
func service(fn func(*nomad.Service, *nomad.ServiceCheck)) *nomad.Service {
	c := nomad.ServiceCheck{Name: "alive", Type: "http", Path: "/health", Interval: 10 * time.Second, Timeout: time.Minute}
	s := &nomad.Service{Name: "web", Provider: "nomad", PortLabel: "http"}
	if fn != nil {
		fn(s, &c)
	}
	s.Checks = []nomad.ServiceCheck{c}
	return s
}

func newCheck(t *testing.T, fn func(*nomad.Service, *nomad.ServiceCheck)) *check.Check {
	t.Helper()
	s := service(fn)
	c, err := check.New(s, &s.Checks[0], "app")
	require.NoError(t, err)
	return c
}

// target is an allocation whose port "http" is at an address.
func target(t *testing.T, address string) check.Target {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	a := &structs.Allocation{ID: "a1", Name: "job.g[0]", Resources: structs.AllocatedResources{
		Ports: []structs.AllocatedPort{{Label: "http", HostIP: host, Value: n}},
	}}
	env := taskenv.NewBuilder(&structs.Node{}, a, &nomad.Task{Env: map[string]string{"AT": "/health", "TOKEN": "t"}}).Build()
	return check.Target{AllocID: a.ID, Name: a.Name, Ports: a.Resources.Ports, Env: env}
}

func TestAnHTTPCheckSendsTheRequestOfItsBlock(t *testing.T) {
	var asked *http.Request
	var body string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		asked, body = r, string(data)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	}))
	defer s.Close()
	c := newCheck(t, func(_ *nomad.Service, c *nomad.ServiceCheck) {
		c.Path, c.Method, c.Body = "${AT}?deep=1", "post", "ping"
		c.Header = map[string][]string{"X-Token": {"${TOKEN}"}, "Host": {"web.example"}}
	})
	got := c.Probe(t.Context(), target(t, s.URL))
	require.Equal(t, structs.CheckSuccess, got.Status)
	require.Equal(t, "nomad: http ok", got.Output)
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "app web alive job.g[0] healthiness", strings.Join([]string{got.Task, got.Service, got.Check, got.Group, got.Mode}, " "))
	require.NotZero(t, got.Timestamp)
	require.Equal(t, "POST /health?deep=1 web.example t ping", strings.Join([]string{asked.Method, asked.URL.String(), asked.Host, asked.Header.Get("X-Token"), body}, " "))

	for status = range map[int]bool{404: true, 500: true} {
		got = c.Probe(t.Context(), target(t, s.URL))
		require.Equal(t, structs.CheckFailure, got.Status)
		require.Equal(t, status, got.StatusCode)
		require.Len(t, got.Output, 3<<10)
	}
	require.Equal(t, c.Pending(target(t, s.URL)).ID, got.ID)
}

func TestATCPCheckFindsWhetherThePortIsOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	tcp := func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Type, c.Path = "tcp", "" }
	at := target(t, l.Addr().String())
	got := newCheck(t, tcp).Probe(t.Context(), at)
	require.Equal(t, structs.CheckSuccess, got.Status)
	require.Equal(t, "nomad: tcp ok", got.Output)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	byNumber := newCheck(t, func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Type, c.Path, c.PortLabel = "tcp", "", port })
	require.Equal(t, structs.CheckSuccess, byNumber.Probe(t.Context(), at).Status)
	require.NoError(t, l.Close())
	// The listener's own port may be another process's by now.
	got = newCheck(t, tcp).Probe(t.Context(), target(t, "127.0.0.1:1"))
	require.Equal(t, structs.CheckFailure, got.Status)
	require.Contains(t, got.Output, "connection refused")
}

func TestACheckFails(t *testing.T) {
	stall := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stall:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(stall)
	missing := newCheck(t, func(_ *nomad.Service, c *nomad.ServiceCheck) { c.PortLabel = "db" })
	require.Equal(t, `nomad: the allocation has no port "db"`, missing.Probe(t.Context(), target(t, s.URL)).Output)

	elsewhere := newCheck(t, func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Path = "${env.EVIL}/x" })
	at := target(t, s.URL)
	at.Env = taskenv.NewBuilder(&structs.Node{}, &structs.Allocation{}, &nomad.Task{Env: map[string]string{"EVIL": "http://192.0.2.1"}}).Build()
	require.Contains(t, elsewhere.Probe(t.Context(), at).Output, "leads to another host")

	slow := newCheck(t, func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Timeout = time.Second })
	begun := time.Now()
	got := slow.Probe(t.Context(), target(t, s.URL))
	require.Equal(t, "nomad: no answer within 1s", got.Output)
	require.Equal(t, structs.CheckFailure, got.Status)
	require.Less(t, time.Since(begun), 30*time.Second)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, structs.CheckFailure, newCheck(t, nil).Probe(ctx, target(t, s.URL)).Status)
}

func TestWhatACheckCannotBe(t *testing.T) {
	for want, fn := range map[string]func(*nomad.Service, *nomad.ServiceCheck){
		`type: "grpc" is not supported: checks are tcp, http or script`: func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Type = "grpc" },
		`type: "" is not supported`:                                     func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Type = "" },
		"path: an http check needs one":                                 func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Path = "" },
		`path: "http://h/x" is not a path`:                              func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Path = "http://h/x" },
		`path: "//h/x" is not a path`:                                   func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Path = "//h/x" },
		`protocol: "ftp" is not supported`:                              func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Protocol = "ftp" },
		`address_mode: "driver" is not supported`:                       func(s *nomad.Service, _ *nomad.ServiceCheck) { s.AddressMode = "driver" },
		"expose is not supported":                                       func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Expose = true },
		"port: neither the check nor its service has one":               func(s *nomad.Service, _ *nomad.ServiceCheck) { s.PortLabel = "" },
		"interval: 1ms is less than 1s":                                 func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Interval = time.Millisecond },
		"timeout: 0s is less than 1s":                                   func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Timeout = 0 },
		"failures_before_warning are Consul's":                          func(_ *nomad.Service, c *nomad.ServiceCheck) { c.FailuresBeforeCritical = 2 },
		`on_update: "never" is none`:                                    func(_ *nomad.Service, c *nomad.ServiceCheck) { c.OnUpdate = "never" },
		"check_restart: limit: it can't be negative":                    func(s *nomad.Service, _ *nomad.ServiceCheck) { s.CheckRestart = &nomad.CheckRestart{Limit: -1} },
		"check_restart: grace: it can't be negative": func(_ *nomad.Service, c *nomad.ServiceCheck) {
			c.CheckRestart = &nomad.CheckRestart{Limit: 1, Grace: ptr(-time.Second)}
		},
	} {
		s := service(fn)
		_, err := check.New(s, &s.Checks[0], "app")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	s := service(func(s *nomad.Service, _ *nomad.ServiceCheck) { s.CheckRestart = &nomad.CheckRestart{Limit: 3} })
	c, err := check.New(s, &s.Checks[0], "")
	require.NoError(t, err, "it restarts all tasks of the group")
	require.Equal(t, 3, c.Restart.Limit)
}

func TestTheChecksOfAGroup(t *testing.T) {
	ofTask := service(func(s *nomad.Service, c *nomad.ServiceCheck) {
		s.Name, s.CheckRestart, c.CheckRestart = "db", &nomad.CheckRestart{Limit: 3, Grace: ptr(time.Minute)}, &nomad.CheckRestart{Limit: 2}
		c.OnUpdate = "ignore"
	})
	consul := service(func(s *nomad.Service, _ *nomad.ServiceCheck) { s.Provider = "consul" })
	bad := service(func(_ *nomad.Service, c *nomad.ServiceCheck) { c.Type = "grpc" })
	named := service(func(s *nomad.Service, c *nomad.ServiceCheck) { s.Provider, c.TaskName = "", "app" })
	checks, err := check.OfGroup(&nomad.TaskGroup{
		Services: []*nomad.Service{service(nil), consul, bad, named},
		Tasks:    []*nomad.Task{{Name: "app", Services: []*nomad.Service{ofTask}}},
	})
	require.EqualError(t, err, `service "web": check "alive": type: "grpc" is not supported: checks are tcp, http or script`)
	require.Len(t, checks, 3)
	require.Equal(t, []string{"", "app", "app"}, []string{checks[0].Task, checks[1].Task, checks[2].Task})
	require.Equal(t, &check.Restart{Limit: 2, Grace: time.Minute}, checks[2].Restart)
	require.Equal(t, structs.CheckReadiness, checks[2].Mode)
	require.Nil(t, checks[0].Restart)
	require.NotEqual(t, checks[0].ID("a1"), checks[1].ID("a1"))
	require.NotEqual(t, checks[0].ID("a1"), checks[0].ID("a2"))
}
