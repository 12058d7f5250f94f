package httpapi_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// plane is an embedded control plane, of which a test may change an answer.
func plane(t testing.TB) *standalone.ControlPlane {
	t.Helper()
	s, err := standalone.Open(standalone.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// serve serves the API without an agent around it.
func serve(t testing.TB, c httpapi.ControlPlane, n httpapi.Node, conditions ...structs.Condition) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(httpapi.Handler(httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: c, Node: n, Plugins: noPlugins{},
		Agent:      httpapi.AgentInfo{Name: "here", Region: "global", Datacenter: "dc1", Address: "127.0.0.1:4646"},
		Conditions: func() []structs.Condition { return conditions },
	}))
	t.Cleanup(s.Close)
	return s
}

type noPlugins struct{}

func (noPlugins) Status() any                          { return []string{} }
func (noPlugins) Log(string, int) httpapi.PluginStream { return nil }
func (noPlugins) Trace(string) httpapi.PluginStream    { return nil }
func (noPlugins) RecordBounds() httpapi.RecordBounds {
	return httpapi.RecordBounds{DefaultTime: 10 * time.Minute, MaxTime: time.Hour, DefaultBytes: 64 << 20, MaxBytes: 256 << 20}
}

func (noPlugins) Record(name string, longest time.Duration, bytes int) (httpapi.PluginStream, error) {
	return nil, errdefs.New(errdefs.NotFound, "no plugin %q that records for %v %d bytes", name, longest, bytes)
}

func (noPlugins) Description(string) (any, error) { return nil, nil }

// changing changes a job after each read of the job's things, before the answer.
type changing struct {
	*standalone.ControlPlane
	change func()
}

func (c changing) JobAllocations(namespace, id string) []*structs.Allocation {
	defer c.change()
	return c.ControlPlane.JobAllocations(namespace, id)
}

func (c changing) JobEvaluations(namespace, id string) []*structs.Evaluation {
	defer c.change()
	return c.ControlPlane.JobEvaluations(namespace, id)
}

func (c changing) Allocations() []*structs.Allocation {
	defer c.change()
	return c.ControlPlane.Allocations()
}

func (c changing) JobSummary(namespace, id string) *structs.JobSummary {
	defer c.change()
	return c.ControlPlane.JobSummary(namespace, id)
}

func TestAChangeDuringAReadIsNotMissed(t *testing.T) {
	s := plane(t)
	// With a node, so that the changes make allocations.
	_, err := s.ForNode().Register(t.Context(), &structs.Node{
		ID: "node", Name: "here", Datacenter: "dc1", Pool: "default", Status: structs.NodeReady,
		Resources: structs.NodeResources{CPUMHz: 1000, MemoryMB: 1000, DiskMB: 1000},
		Drivers:   map[string]*structs.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
	})
	require.NoError(t, err)
	versions := 0
	c := changing{s, func() {
		versions++
		_, err := s.RegisterJob(&structs.JobRegistration{Job: mock("changed", map[string]any{"exit_code": versions})})
		require.NoError(t, err)
	}}
	c.change()
	web := serve(t, c, nil)
	for path, table := range map[string]string{
		"/v1/job/changed/allocations": standalone.TableAllocations,
		"/v1/job/changed/evaluations": standalone.TableEvaluations,
		"/v1/job/changed/summary":     standalone.TableJobs,
		"/v1/allocations":             standalone.TableAllocations,
		"/v1/jobs":                    standalone.TableJobs,
	} {
		t.Run(path, func(t *testing.T) {
			before := s.Index(table)
			resp, err := web.Client().Get(web.URL + path)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Greater(t, s.Index(table), before)
			require.Equal(t, before, index(t, reply{header: resp.Header}), "with a later one the client would wait for the change after this")
		})
	}
}

// failing is a node whose files break after some bytes, or whose calls panic.
type failing struct{ httpapi.Node }

func (failing) Files(string) (clientapi.Files, error) { return failingFiles{}, nil }

type failingFiles struct{ clientapi.Files }

func (failingFiles) Stat(path string) (clientapi.File, error) {
	if path == "panic" {
		panic("out of order")
	}
	return clientapi.File{Name: path}, nil
}

func (failingFiles) ReadAt(string, int64) (io.ReadCloser, error) {
	broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), brokenReader{})
	return io.NopCloser(broken), nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestAnAnswerThatBreaksOffDoesNotLookWhole(t *testing.T) {
	web := serve(t, plane(t), failing{})
	resp, err := web.Client().Get(web.URL + "/v1/client/fs/cat/some?path=x")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAPanicIsOneRequestsFailure(t *testing.T) {
	web := serve(t, plane(t), failing{})
	for range 2 {
		resp, err := web.Client().Get(web.URL + "/v1/client/fs/stat/some?path=panic")
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		require.Equal(t, "internal error: out of order", string(b))
	}
}
