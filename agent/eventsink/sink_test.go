package eventsink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver takes lines, and fails as its script says: nil takes one.
type receiver struct {
	mu     sync.Mutex
	script []error
	ids    []string
	lines  []string
	synced int         // how many of the lines outlast a power cut
	full   error       // of Sync
	took   chan string // each line that was taken
	called chan string // each ID, before it is taken or not
}

func newReceiver(script ...error) *receiver {
	return &receiver{script: script, took: make(chan string, 1000), called: make(chan string, 1000)}
}

func (r *receiver) Deliver(_ context.Context, id string, line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
	r.called <- id
	if len(r.script) > 0 {
		err := r.script[0]
		r.script = r.script[1:]
		if err != nil {
			return err
		}
	}
	r.lines = append(r.lines, string(line))
	r.took <- string(line)
	return nil
}

func (r *receiver) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced = len(r.lines)
	return r.full
}

func (*receiver) Close() error { return nil }

// asked returns the IDs without their checksums.
func (r *receiver) asked() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.ids {
		ids = append(ids, id[:strings.LastIndexByte(id, '-')])
	}
	return ids
}

// world is a control plane that a sink follows.
type world struct {
	dir     string
	plane   *standalone.ControlPlane
	metrics *Metrics
	mu      sync.Mutex
	reports []error
}

func newWorld(t *testing.T, buffer int) *world {
	w := &world{dir: t.TempDir(), metrics: NewMetrics()}
	var err error
	w.plane, err = standalone.Open(standalone.Options{Logger: hclog.NewNullLogger(), EventBuffer: buffer})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.plane.Close()) })
	return w
}

// pool makes a change.
func (w *world) pool(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, w.plane.PutNodePool(nomad.NodePool{Name: name}))
}

// names renders the keys of events, so that they can be compared.
func names(list []*structs.ChangeBatch) ([]byte, error) {
	var keys []string
	for _, b := range list {
		for _, e := range b.Events {
			if e.Topic == "NodePool" {
				keys = append(keys, e.Key)
			}
		}
	}
	if keys == nil {
		return nil, nil
	}
	return fmt.Append(nil, keys), nil
}

func (w *world) sink(to Receiver) *Sink {
	return New(Config{
		Name: "s", Source: w.plane, Line: names, Receiver: to, NodeID: "n", Progress: filepath.Join(w.dir, "sinks", "s"),
		Metrics: w.metrics, Logger: hclog.NewNullLogger(), FirstRetry: time.Microsecond,
		Report: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports = append(w.reports, err)
		},
	})
}

// start runs a sink until the function that it returns is called.
func (w *world) start(t *testing.T, to *receiver) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s := w.sink(to)
	changes := s.begin() // it has its place before anything changes
	go func() {
		defer close(ended)
		s.run(ctx, changes)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

func TestASinkIsToldWhatHappensFromNowOn(t *testing.T) {
	w := newWorld(t, 100)
	w.pool(t, "before")
	to := newReceiver()
	stop := w.start(t, to)
	w.pool(t, "one")
	assert.Equal(t, "[one]", <-to.took)
	w.pool(t, "two")
	assert.Equal(t, "[two]", <-to.took)
	stop()
	assert.Equal(t, []string{"n-2", "n-3"}, to.asked(), "a line's ID is the node's, the index, and what it has")
	assert.EqualValues(t, 2, testutil.ToFloat64(w.metrics.delivered.WithLabelValues("s")))
}

func TestASinkGoesOnAfterARestart(t *testing.T) {
	w := newWorld(t, 1) // what it missed is not in the buffer
	first := newReceiver()
	stop := w.start(t, first)
	w.pool(t, "one")
	<-first.took
	stop()
	for _, name := range []string{"two", "three", "gone"} {
		w.pool(t, name)
	}
	require.NoError(t, w.plane.DeleteNodePool("gone"))
	then := newReceiver()
	w.start(t, then)
	assert.Equal(t, "[two three]", <-then.took, "of what is no more nothing is known")
	w.pool(t, "four")
	assert.Equal(t, "[four]", <-then.took)
}

func TestWhatCannotBeDeliveredIsToldUntilItCan(t *testing.T) {
	w := newWorld(t, 100)
	down := errors.New("down")
	to := newReceiver(down, down, nil)
	w.start(t, to)
	w.pool(t, "one")
	assert.Equal(t, "[one]", <-to.took)
	w.pool(t, "two")
	assert.Equal(t, "[two]", <-to.took)
	assert.Equal(t, []string{"n-1", "n-1", "n-1", "n-2"}, to.asked())
	w.mu.Lock()
	assert.Equal(t, []error{down, down, nil}, w.reports)
	w.mu.Unlock()
	assert.EqualValues(t, 2, testutil.ToFloat64(w.metrics.failures.WithLabelValues("s")))
	assert.Zero(t, testutil.ToFloat64(w.metrics.failing.WithLabelValues("s")))
}

func TestWhatIsRefusedIsCountedAndNotToldAgain(t *testing.T) {
	w := newWorld(t, 100)
	to := newReceiver(&Refused{errors.New("no")})
	w.start(t, to)
	w.pool(t, "one")
	<-to.called
	w.pool(t, "two")
	assert.Equal(t, "[two]", <-to.took)
	assert.EqualValues(t, 1, testutil.ToFloat64(w.metrics.lost.WithLabelValues("s")))
}

// blocked is a receiver that takes nothing until it is let.
type blocked struct {
	*receiver
	asked chan struct{}
	let   chan struct{}
}

func (b *blocked) Deliver(ctx context.Context, id string, line []byte) error {
	select {
	case b.asked <- struct{}{}:
	default:
	}
	select {
	case <-b.let:
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.receiver.Deliver(ctx, id, line)
}

// The buffer of events is the queue of all sinks: what a slow one missed is counted, and it is
// told what is the case then. The control plane does not wait for it.
func TestASlowSinkIsToldWhatIsNow(t *testing.T) {
	w := newWorld(t, 2)
	to := &blocked{newReceiver(), make(chan struct{}, 1), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	s := w.sink(to)
	changes := s.begin()
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx, changes) }()
	defer func() { cancel(); <-ended }()
	w.pool(t, "one")
	<-to.asked
	for i := range 5 {
		w.pool(t, fmt.Sprint("p", i))
	}
	require.NoError(t, w.plane.PutNodePool(nomad.NodePool{Name: "p1", Description: "again"}))
	close(to.let)
	assert.Equal(t, "[one]", <-to.took)
	assert.Equal(t, "[p0 p2 p3 p4 p1]", <-to.took)
	assert.EqualValues(t, 4, testutil.ToFloat64(w.metrics.lost.WithLabelValues("s")), "six, of which the buffer has two")
}

func TestALineHasSoManyEventsAtMost(t *testing.T) {
	batch := func(n int) *structs.ChangeBatch {
		return &structs.ChangeBatch{Events: make([]*structs.ChangeEvent, n)}
	}
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{[]int{1}, 1},
		{[]int{lineEvents - 1, 1, 1}, 2},
		{[]int{lineEvents, 1}, 1},
		{[]int{lineEvents + 1, 1}, 1},
	} {
		var list []*structs.ChangeBatch
		for _, n := range c.sizes {
			list = append(list, batch(n))
		}
		assert.Equal(t, c.want, part(list), c.sizes)
	}
}

func TestALineThatIsTooLongIsSeveral(t *testing.T) {
	w := newWorld(t, 1)
	to := newReceiver()
	s := w.sink(to)
	s.Line = func(list []*structs.ChangeBatch) ([]byte, error) { return make([]byte, len(list)*lineBytes/2), nil }
	var list []*structs.ChangeBatch
	for i := range 5 {
		list = append(list, &structs.ChangeBatch{Index: uint64(i + 1)})
	}
	require.NoError(t, s.tell(t.Context(), list))
	assert.Equal(t, []string{"n-2", "n-3", "n-5"}, to.asked())
	assert.EqualValues(t, 5, s.at)
}

func TestWhatCannotBeRenderedLosesNothingElse(t *testing.T) {
	w := newWorld(t, 1)
	to := newReceiver()
	s := w.sink(to)
	s.Line = func(list []*structs.ChangeBatch) ([]byte, error) {
		var indexes []uint64
		for _, b := range list {
			if b.Index == 3 {
				return nil, errors.New("no JSON")
			}
			indexes = append(indexes, b.Index)
		}
		return fmt.Append(nil, indexes), nil
	}
	var list []*structs.ChangeBatch
	for i := range 5 {
		list = append(list, &structs.ChangeBatch{Index: uint64(i + 1)})
	}
	require.NoError(t, s.tell(t.Context(), list))
	assert.Equal(t, []string{"[1 2]", "[4 5]"}, to.lines)
	assert.EqualValues(t, 5, s.at)
	assert.EqualValues(t, 1, testutil.ToFloat64(w.metrics.lost.WithLabelValues("s")))
}

// A control plane that was restored gives an index again, and a line after a restart can end where
// another did: receivers drop what they have had by its ID.
func TestAnIDIsOfOneLineOnly(t *testing.T) {
	s := newWorld(t, 1).sink(newReceiver())
	assert.Equal(t, s.id(7, []byte("one")), s.id(7, []byte("one")))
	assert.NotEqual(t, s.id(7, []byte("one")), s.id(7, []byte("two")))
	assert.NotEqual(t, s.id(7, []byte("one")), s.id(8, []byte("one")))
}

func TestNoMoreIsKeptAsToldThanOutlastsAPowerCut(t *testing.T) {
	w := newWorld(t, 1)
	to := newReceiver()
	s := w.sink(to)
	require.NoError(t, s.tell(t.Context(), []*structs.ChangeBatch{{Index: 4, Events: []*structs.ChangeEvent{{Topic: "NodePool", Key: "one"}}}}))
	at, err := readProgress(s.Progress)
	require.NoError(t, err)
	assert.EqualValues(t, 4, *at)
	assert.Equal(t, 1, to.synced)

	to.full = errors.New("no room")
	s.at = 5
	s.save()
	at, err = readProgress(s.Progress)
	require.NoError(t, err)
	assert.EqualValues(t, 4, *at, "what may not outlast it is told again")
}

func TestARestoredControlPlaneIsFollowedFromNowOn(t *testing.T) {
	w := newWorld(t, 10)
	w.pool(t, "one")
	s := w.sink(newReceiver())
	for _, text := range []string{"99\n", "no number", ""} {
		require.NoError(t, os.MkdirAll(filepath.Dir(s.Progress), 0o700))
		require.NoError(t, os.WriteFile(s.Progress, []byte(text), 0o600))
		changes := s.begin()
		assert.Empty(t, changes.Batches, text)
		assert.Equal(t, w.plane.ChangesSince(math.MaxUint64).Index, s.at, text)
	}
}

// A receiver says when it will have more; the wait has a bound, and ends with the agent.
func TestAReceiverMaySayWhenItIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(&RetryAfter{errors.New("later"), 7 * time.Second}, &RetryAfter{errors.New("much later"), time.Hour}, nil)
		s := New(Config{Name: "s", Receiver: to, NodeID: "n", Metrics: NewMetrics(), Logger: hclog.NewNullLogger(), Report: func(error) {}})
		began := time.Now()
		require.NoError(t, s.deliver(t.Context(), "id", []byte("x"), 1))
		assert.Equal(t, 7*time.Second+longestRetry, time.Since(began))

		s.Receiver = newReceiver(errors.New("down"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, s.deliver(ctx, "id", []byte("x"), 1), context.DeadlineExceeded)
	})
}
