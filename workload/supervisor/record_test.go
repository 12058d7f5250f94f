package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

func TestARecordTakesEventsInTheirOrderOnly(t *testing.T) {
	for name, c := range map[string]struct {
		events  []event
		want    state
		refused event // cannot be then
	}{
		"a start that fails":                             {[]event{eventNotStarted}, stateGone, eventStarted},
		"no result of what has not started":              {nil, stateStarting, eventResult},
		"no removal of what has not started":             {nil, stateStarting, eventRemove},
		"no removal before the result is written":        {[]event{eventStarted}, stateRunning, eventRemove},
		"destroyed before there was a result":            {[]event{eventStarted, eventNoResult}, stateGone, eventResult},
		"one result":                                     {[]event{eventStarted, eventResult}, stateEnded, eventResult},
		"no removal while the result is written again":   {[]event{eventStarted, eventResult, eventRewrite}, stateRewriting, eventRemove},
		"removed after the result was written again":     {[]event{eventStarted, eventResult, eventRewrite, eventRewritten, eventRemove}, stateRemoving, eventRemove},
		"not written again while it is removed":          {[]event{eventStarted, eventResult, eventRemove}, stateRemoving, eventRewrite},
		"removed once more after the removal has failed": {[]event{eventStarted, eventResult, eventRemove, eventNotRemoved, eventRemove, eventRemoved}, stateGone, eventRemove},
	} {
		t.Run(name, func(t *testing.T) {
			rs := newRecords(nil)
			r, err := rs.add("a", "", stateStarting)
			require.NoError(t, err)
			for _, e := range c.events {
				_, changed := rs.look(r)
				require.True(t, rs.step(r, e))
				require.NotPanics(t, func() { <-changed })
			}
			require.Equal(t, c.want, r.state)
			require.False(t, rs.step(r, c.refused))
			require.Equal(t, c.want, r.state)
			_, err = rs.add("a", "", stateStarting)
			require.Equal(t, c.want == stateGone, err == nil, "the ID is taken until the record is gone")
		})
	}
}

// directed is a runtime that does what a test says, with one workload at a time.
type directed struct {
	workload.Runtime
	begin chan struct{} // a start waits for it to be closed before the workload is there; nil: it does not
	end   chan struct{} // closed when it ends

	mu     sync.Mutex
	exists bool
}

func newDirected() *directed { return &directed{end: make(chan struct{})} }

func (d *directed) is(exists bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exists = exists
}

func (d *directed) Start(context.Context, *workload.Spec) error {
	if d.begin != nil {
		<-d.begin
	}
	d.is(true)
	return nil
}

var killed = &structs.ExitResult{ExitCode: 137, Signal: 9}

func (d *directed) Wait(context.Context, string) (*structs.ExitResult, error) {
	<-d.end
	return killed, nil
}

func (d *directed) Inspect(_ context.Context, id string) (*workload.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.exists {
		return nil, notFound(id)
	}
	return &workload.Status{ID: id, State: workload.Exited, Exit: killed}, nil
}

func (d *directed) Destroy(context.Context, string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.exists {
		d.exists = false
		close(d.end)
	}
	return nil
}

// serverOf returns a server that nobody needs.
func serverOf(t *testing.T, d *directed) *Server {
	t.Helper()
	s, err := NewServer(ServerConfig{Logger: hclog.NewNullLogger(), Workloads: d, Dir: t.TempDir(), IdleTime: time.Hour})
	require.NoError(t, err)
	return s
}

var sendRequest = &request{ID: "a"}

func startIn(t *testing.T, s *Server, id string) {
	t.Helper()
	_, err := s.startWorkload(t.Context(), &workload.Spec{ID: id})
	require.NoError(t, err)
}

func TestAWaitEndsAlsoWhenItsWorkloadIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirected()
		s := serverOf(t, d)
		startIn(t, s, "a")
		waited := make(chan any, 1)
		go func() {
			exit, err := s.wait(t.Context(), sendRequest)
			require.NoError(t, err)
			waited <- exit
		}()
		synctest.Wait()
		_, err := s.destroy(t.Context(), sendRequest) // it is gone before its result is looked at
		require.NoError(t, err)
		require.Equal(t, killed, <-waited)
		_, err = s.wait(t.Context(), sendRequest)
		require.ErrorIs(t, err, abi.ErrTaskNotFound)
	})
}

func TestAWorkloadThatIsOnlyStartingIsDestroyedOnceItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirected()
		d.begin = make(chan struct{})
		s := serverOf(t, d)
		started, destroyed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.startWorkload(t.Context(), &workload.Spec{ID: "a"})
			started <- err
		}()
		synctest.Wait()
		go func() {
			_, err := s.destroy(t.Context(), sendRequest)
			destroyed <- err
		}()
		synctest.Wait()
		require.Empty(t, destroyed, "it is not there yet")
		close(d.begin)
		require.NoError(t, <-started)
		require.NoError(t, <-destroyed)
		require.False(t, d.exists)
		require.Nil(t, s.records.find("a"))
	})
}

func TestAWorkloadIsDestroyedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirected()
		s := serverOf(t, d)
		startIn(t, s, "a")
		close(d.end)
		synctest.Wait()
		d.is(false)
		require.NotNil(t, s.records.result("a"))
		var destroying sync.WaitGroup
		for range 2 {
			destroying.Go(func() {
				_, err := s.destroy(t.Context(), sendRequest)
				require.NoError(t, err)
			})
		}
		destroying.Wait()
		require.Nil(t, s.records.find("a"))
	})
}

func TestAResultThatCannotBeRemovedIsKept(t *testing.T) {
	d := newDirected()
	s := serverOf(t, d)
	r := s.records.adopt("a", "")
	s.records.end(r, &workload.Status{ID: "a", State: workload.Exited, Exit: killed}, true)
	inTheWay := filepath.Join(s.results.path("a"), "file")
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	_, err := s.destroy(t.Context(), sendRequest)
	require.Error(t, err)
	exit, err := s.wait(t.Context(), sendRequest)
	require.NoError(t, err)
	require.Equal(t, killed, exit)
	require.NoError(t, os.Remove(inTheWay))
	_, err = s.destroy(t.Context(), sendRequest)
	require.NoError(t, err)
	require.Nil(t, s.records.find("a"))
}

func TestManyWorkloadsComeAndGoAtOnce(t *testing.T) {
	s := serverOf(t, newDirected())
	s.Workloads = &momentary{there: map[string]bool{}}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				req := &request{ID: fmt.Sprint(i % 4)} // two at each ID
				if _, err := s.startWorkload(t.Context(), &workload.Spec{ID: req.ID}); err != nil {
					require.Equal(t, abi.AlreadyExists, abi.CodeOf(err), "%v", err)
				}
				if rand.IntN(2) == 0 {
					if _, err := s.wait(t.Context(), req); err != nil {
						require.ErrorIs(t, err, abi.ErrTaskNotFound)
					}
				}
				_, err := s.destroy(t.Context(), req)
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	s.Drain()
	require.Empty(t, s.records.byID)
	files, err := os.ReadDir(s.results.dir)
	require.NoError(t, err)
	require.Empty(t, files)
	require.Empty(t, s.Workloads.(*momentary).there)
}

// momentary is a runtime of workloads that end at once.
type momentary struct {
	workload.Runtime
	mu    sync.Mutex
	there map[string]bool
}

func (m *momentary) Start(_ context.Context, spec *workload.Spec) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.there[spec.ID] {
		return abi.NewError(abi.Internal, "its ID was free, and the workload before is there still")
	}
	m.there[spec.ID] = true
	return nil
}

func (m *momentary) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	status, err := m.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return status.Exit, nil
}

func (m *momentary) Inspect(_ context.Context, id string) (*workload.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.there[id] {
		return nil, notFound(id)
	}
	return &workload.Status{ID: id, State: workload.Exited, Exit: killed}, nil
}

func (m *momentary) Destroy(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.there, id)
	return nil
}
