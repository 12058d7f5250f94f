package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// watched is a control plane with a node, and Nomad's client of its API.
func watched(t testing.TB) (*standalone.ControlPlane, *nomad.Client, string) {
	t.Helper()
	cp := plane(t)
	_, err := cp.ForNode().Register(t.Context(), &structs.Node{
		ID: "11111111-1111-1111-1111-111111111111", Name: "here", Datacenter: "dc1", Pool: "default", Status: structs.NodeReady,
		Resources: structs.NodeResources{CPUMHz: 1 << 20, MemoryMB: 1 << 20, DiskMB: 1 << 20},
		Drivers:   map[string]*structs.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
	})
	require.NoError(t, err)
	s := serve(t, cp, idle{})
	c, err := nomad.NewClient(&nomad.Config{Address: s.URL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return cp, c, s.URL
}

func register(t testing.TB, c *nomad.Client, id string) {
	t.Helper()
	_, _, err := c.Jobs().Register(mock(id, nil), nil)
	require.NoError(t, err)
}

// stream follows events until the test ends.
func stream(t testing.TB, c *nomad.Client, topics map[nomad.Topic][]string, index uint64, q *nomad.QueryOptions) func() *nomad.Events {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if q == nil {
		q = &nomad.QueryOptions{}
	}
	all, err := c.EventStream().Stream(ctx, topics, index, q)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		for range all { // until its reader has ended
		}
	})
	return func() *nomad.Events {
		t.Helper()
		select {
		case e := <-all:
			require.NotNil(t, e)
			require.NoError(t, e.Err)
			return e
		case <-time.After(time.Minute):
			require.FailNow(t, "no event")
			return nil
		}
	}
}

func TestNomadsClientFollowsEvents(t *testing.T) {
	_, c, _ := watched(t)
	register(t, c, "before")
	next := stream(t, c, map[nomad.Topic][]string{nomad.TopicAll: {"*"}}, 0, nil)
	require.Equal(t, nomad.TopicNode, next().Events[0].Topic, "what is kept comes first")
	before := next()
	require.Len(t, before.Events, 3)
	job, err := before.Events[0].Job()
	require.NoError(t, err)
	require.Equal(t, "before", *job.ID)
	require.Equal(t, before.Index, *job.JobModifyIndex)
	require.Equal(t, "JobRegistered", before.Events[0].Type)
	alloc, err := before.Events[1].Allocation()
	require.NoError(t, err)
	require.Equal(t, "before", alloc.JobID)
	require.Nil(t, alloc.Job)
	eval, err := before.Events[2].Evaluation()
	require.NoError(t, err)
	require.Equal(t, "complete", eval.Status)
	register(t, c, "later")
	require.Equal(t, "later", next().Events[0].Key)
}

func TestEventsAreOnlyThoseThatAreAskedFor(t *testing.T) {
	_, c, _ := watched(t)
	register(t, c, "one")
	register(t, c, "two")
	of := func(topics map[nomad.Topic][]string, q *nomad.QueryOptions) (seen []string) {
		next := stream(t, c, topics, 0, q)
		register(t, c, "end")
		for {
			for _, e := range next().Events {
				if e.Key == "end" || len(e.FilterKeys) > 0 && e.FilterKeys[0] == "end" {
					_, _, err := c.Jobs().Deregister("end", true, nil)
					require.NoError(t, err)
					return seen
				}
				seen = append(seen, string(e.Topic)+" "+fmt.Sprint(e.FilterKeys))
			}
		}
	}
	require.Equal(t, []string{"Allocation [one]", "Allocation [two]"}, of(map[nomad.Topic][]string{"Allocation": nil}, nil))
	require.Equal(t, []string{"Evaluation [two]"}, of(map[nomad.Topic][]string{"Evaluation": {"two", "end"}}, nil))
	require.Equal(t, []string{"Job []", "Allocation [one]"}, of(map[nomad.Topic][]string{"Job": {"one"}, "Allocation": {"one", "end"}}, nil))
	require.Contains(t, of(map[nomad.Topic][]string{"*": nil}, &nomad.QueryOptions{Namespace: "*"}), "Node []")
}

func TestEventsOfTokensAreForWhoManagesThem(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	client := func(secret string) *nomad.Client {
		c, err := nomad.NewClient(&nomad.Config{Address: g.URL, SecretID: secret})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	reader, manager := client(g.token(t, structs.ACLClient, structs.ACLReadOnly)), client(g.token(t, structs.ACLManagement))
	tokens := map[nomad.Topic][]string{"ACLToken": {"*"}}
	_, err := reader.EventStream().Stream(t.Context(), tokens, 0, &nomad.QueryOptions{})
	require.ErrorContains(t, err, "Permission denied")
	next := stream(t, manager, tokens, 0, nil)()
	require.Equal(t, "ACLTokenUpserted", next.Events[0].Type)
	require.NotEmpty(t, next.Events[0].Payload["ACLToken"])
	all := stream(t, reader, nil, next.Index, nil)
	g.token(t, structs.ACLManagement)
	require.NoError(t, g.plane.PutNodePool(nomad.NodePool{Name: "gpu"}))
	for {
		e := all().Events[0]
		require.NotEqual(t, nomad.Topic("ACLToken"), e.Topic)
		if e.Type == "NodePoolUpserted" {
			require.Equal(t, "gpu", e.Key)
			break
		}
	}

	resp, err := manager.Nodes().UpdateDrain("node", &nomad.DrainSpec{}, false, nil)
	require.NoError(t, err)
	require.NotZero(t, resp.NodeModifyIndex)
	node, _, err := manager.Nodes().Info("node", nil)
	require.NoError(t, err)
	self, _, err := manager.ACLTokens().Self(nil)
	require.NoError(t, err)
	require.Equal(t, self.AccessorID, node.LastDrain.AccessorID)
}

func TestAnIndexBeyondTheLastBringsOnlyWhatComes(t *testing.T) {
	_, c, _ := watched(t)
	register(t, c, "before")
	next := stream(t, c, map[nomad.Topic][]string{"Job": nil}, math.MaxInt64, nil)
	register(t, c, "later")
	require.Equal(t, "later", next().Events[0].Key)
}

func TestBadTopicsAndIndexesAreRefused(t *testing.T) {
	_, _, url := watched(t)
	for _, query := range []string{"topic=Job:", "topic=Nonsense", "topic=:x", "index=-1", "index=x", "nonsense=1", "region=eu"} {
		r, err := http.Get(url + "/v1/event/stream?" + query)
		require.NoError(t, err)
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r.Body.Close()
		require.GreaterOrEqual(t, r.StatusCode, 400, query)
		require.NotEmpty(t, b)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A client that does not read is cut off, and nobody waits for it meanwhile.
func TestASlowReaderOfEventsIsToldAndHoldsNobody(t *testing.T) {
	cp, err := standalone.Open(standalone.Options{EventBuffer: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Close()) })
	s := serve(t, cp, idle{})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /v1/event/stream?topic=Job HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	buf := bufio.NewReader(conn)
	for line := ""; line != "{}\n"; { // the stream has begun
		line, err = buf.ReadString('\n')
		require.NoError(t, err)
	}
	long := strings.Repeat("x", 1<<20)
	const versions = 48 // more than the sockets' buffers hold
	for i := range versions {
		job := mock("large", nil)
		job.Meta, job.Priority = map[string]string{"long": long}, new(1+i%90)
		_, err := cp.RegisterJob(&structs.JobRegistration{Job: job})
		require.NoError(t, err)
	}
	all, err := io.ReadAll(buf)
	require.NoError(t, err)
	require.Contains(t, string(all[len(all)-300:]), `{"Error":"events are lost`)
	require.Less(t, strings.Count(string(all), `"JobRegistered"`), versions)
}

// BenchmarkEventStreams measures how long it takes until 100 clients have an event, from the
// change on.
func BenchmarkEventStreams(b *testing.B) {
	const clients = 100
	_, c, _ := watched(b)
	got := make(chan struct{}, clients)
	ctx, cancel := context.WithCancel(b.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for range clients {
		all, err := c.EventStream().Stream(ctx, map[nomad.Topic][]string{"Job": nil}, math.MaxInt64, &nomad.QueryOptions{})
		require.NoError(b, err)
		readers.Go(func() {
			for e := range all {
				if e.Err == nil {
					got <- struct{}{}
				}
			}
		})
	}
	job := mock("job", nil)
	for b.Loop() {
		job.Priority = new(1 + *job.Priority%90)
		_, _, err := c.Jobs().Register(job, nil)
		require.NoError(b, err)
		for range clients {
			<-got
		}
	}
}

func TestAFilterTellsWhatAStreamWould(t *testing.T) {
	_, err := httpapi.NewEventFilter([]string{"Job", "Jobs"}, "*")
	require.ErrorContains(t, err, `topics: "Jobs" is none such as "Allocation" or "Job:web"; there are ["*" "ACLAuthMethod"`)
	batches := []*structs.ChangeBatch{
		{Index: 3, Events: []*structs.ChangeEvent{
			{Topic: "NodePool", Type: "NodePoolUpserted", Key: "a", Index: 3, Object: &nomad.NodePool{Name: "a"}},
			{Topic: "Job", Type: "JobDeregistered", Key: "web", Namespace: "prod", Index: 3, Object: &nomad.Job{ID: new("web")}, Deleted: true},
		}},
		{Index: 4, Events: []*structs.ChangeEvent{{Topic: "NodePool", Type: "NodePoolUpserted", Key: "b", Index: 4, Object: &nomad.NodePool{Name: "b"}}}},
	}
	for _, c := range []struct {
		topics    []string
		namespace string
		want      []string
	}{
		{nil, "*", []string{"a", "web", "b"}},
		{[]string{"*:b", "Job"}, "default", []string{"b"}},
		{[]string{"Job:web"}, "prod", []string{"web"}},
		{[]string{"Node"}, "*", nil},
	} {
		f, err := httpapi.NewEventFilter(c.topics, c.namespace)
		require.NoError(t, err)
		line, err := f.Line(batches)
		require.NoError(t, err)
		if c.want == nil {
			require.Nil(t, line)
			continue
		}
		var events nomad.Events // as a client of the stream reads it
		require.NoError(t, json.Unmarshal(line, &events))
		require.EqualValues(t, 4, events.Index)
		var keys []string
		for _, e := range events.Events {
			keys = append(keys, e.Key)
		}
		require.Equal(t, c.want, keys)
	}
	f, err := httpapi.NewEventFilter(nil, "*")
	require.NoError(t, err)
	_, err = f.Line([]*structs.ChangeBatch{{Events: []*structs.ChangeEvent{{Object: 1}}}})
	require.Error(t, err)
}
