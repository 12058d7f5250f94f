package node

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestANodeIsInitializingUntilItIsReadyAndKnowsItsDriversAsTheyCome(t *testing.T) {
	s := newSelf(&structs.Node{Attributes: map[string]string{}})
	require.Equal(t, structs.NodeInitializing, s.get().Status)
	s.updateDriver("a", &structs.DriverInfo{Detected: true})
	<-s.changed.C()
	require.Len(t, s.get().Drivers, 1)
	require.Equal(t, structs.NodeInitializing, s.get().Status)
	s.markReady()
	<-s.changed.C()
	require.Equal(t, structs.NodeReady, s.get().Status)
	s.updateDriver("a", &structs.DriverInfo{Detected: true, UpdateTime: time.Unix(5, 0)})
	select {
	case <-s.changed.C():
		t.Fatal("nothing has changed but the time")
	default:
	}
}

func TestADriversAttributesStayBelowTheDriversName(t *testing.T) {
	n := &structs.Node{Attributes: map[string]string{"kernel.name": "linux", "driver.other": "1"}}
	mergeDriver(n, "liar", &structs.DriverInfo{Detected: true, Healthy: true, HealthDescription: "Healthy", Attributes: map[string]string{
		"kernel.name": "plan9", "driver.other": "0", "driver.liar.version": "2", "driver.liar": "true", "empty": "",
	}})
	want := map[string]string{
		"kernel.name": "linux", "driver.other": "1", "driver.liar": "1", "driver.liar.version": "2",
		"driver.liar.kernel.name": "plan9", "driver.liar.driver.other": "0",
	}
	require.Equal(t, want, n.Attributes)
	require.Equal(t, "Healthy", n.Events[0].Message)
	mergeDriver(n, "liar", &structs.DriverInfo{Detected: false, Attributes: map[string]string{"driver.liar.version": "3"}})
	require.Equal(t, map[string]string{"kernel.name": "linux", "driver.other": "1", "driver.liar.version": "3"}, n.Attributes)
	mergeDriver(n, "liar", nil)
	require.Equal(t, map[string]string{"kernel.name": "linux", "driver.other": "1"}, n.Attributes)
	for i := range 3 * structs.MaxNodeEvents {
		mergeDriver(n, "liar", &structs.DriverInfo{Healthy: i%2 == 0, HealthDescription: "flaps"})
	}
	require.Len(t, n.Events, structs.MaxNodeEvents)
}

// countingPlane counts, and fails as told.
type countingPlane struct {
	ControlPlane
	mu        sync.Mutex
	registers int
	beats     int
	fail      int // so many calls fail
	batches   [][]*structs.AllocationState
	got       chan struct{}
}

// call answers a call and then says that there was one.
func (p *countingPlane) call(record func()) error {
	err := p.answer(record)
	p.got <- struct{}{}
	return err
}

func (p *countingPlane) answer(record func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail > 0 {
		p.fail--
		return errors.New("not now")
	}
	record()
	return nil
}

func (p *countingPlane) Register(context.Context, *structs.Node) (time.Duration, error) {
	return 2 * time.Millisecond, p.call(func() { p.registers++ })
}

func (p *countingPlane) Heartbeat(context.Context, string) (time.Duration, error) {
	return 2 * time.Millisecond, p.call(func() { p.beats++ })
}

func (p *countingPlane) UpdateAllocations(_ context.Context, _ string, states []*structs.AllocationState) error {
	return p.call(func() { p.batches = append(p.batches, states) })
}

func TestHeartbeatsAreSentAndAFailedOneRegistersAgain(t *testing.T) {
	p := &countingPlane{got: make(chan struct{})}
	n := &Node{cfg: Config{ControlPlane: p}, logger: hclog.NewNullLogger(), self: newSelf(&structs.Node{ID: "n"}), heard: newHeard("", hclog.NewNullLogger())}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.registerLoop(ctx)
	}()
	<-p.got
	require.NoError(t, n.self.awaitKnown(t.Context()))
	<-p.got
	p.mu.Lock()
	require.Equal(t, 1, p.registers)
	p.fail = 1
	p.mu.Unlock()
	for again := false; !again; {
		<-p.got
		p.mu.Lock()
		again = p.registers == 2
		p.mu.Unlock()
	}
	cancel()
	for {
		select {
		case <-p.got:
		case <-ended:
			return
		}
	}
}

// A disk that is full for a night is one line of the log, and not thousands.
func TestAFaultThatGoesOnIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &countingPlane{got: make(chan struct{}, 10), fail: 5}
		n := &Node{cfg: Config{ControlPlane: p}, logger: hclog.New(&hclog.LoggerOptions{Output: &log}), self: newSelf(&structs.Node{ID: "n"}), heard: newHeard("", hclog.NewNullLogger())}
		_, err := n.register(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, p.registers)
		require.Equal(t, 1, strings.Count(log.String(), "registering the node failed, trying again"), log.String())
	})
}

func reported(id string, status structs.ClientStatus) *structs.AllocationState {
	return &structs.AllocationState{ID: id, ClientStatus: status}
}

func TestReportsAreGroupedRetriedAndNeverRepeated(t *testing.T) {
	p := &countingPlane{got: make(chan struct{}, 100), fail: 1}
	ends := 0
	r := newReporter(p, "n", hclog.NewNullLogger(), func() { ends++ })
	r.add(reported("a", structs.ClientPending))
	r.add(reported("a", structs.ClientRunning))
	r.add(reported("b", structs.ClientComplete))
	require.True(t, r.ended("b"))
	require.False(t, r.endKnown("b"))
	r.send(t.Context())
	require.Len(t, p.batches, 1, "what is ready goes together, its newest version only")
	require.Len(t, p.batches[0], 2)
	require.True(t, r.endKnown("b"))
	require.Equal(t, 1, ends)
	r.add(reported("a", structs.ClientRunning))
	r.send(t.Context())
	require.Len(t, p.batches, 1, "what has not changed is not sent")
	r.add(reported("a", structs.ClientPending))
	r.send(t.Context())
	require.Equal(t, 1, ends, "nothing has ended")
	r.prune(r.known(), func(id string) bool { return id == "a" })
	require.False(t, r.ended("b"))
	require.Len(t, r.latest, 1)
}

// An allocation can be forgotten while its report is under way: what the control plane then
// takes, or does not, must leave nothing behind.
func TestWhatIsForgottenDuringItsReportLeavesNothing(t *testing.T) {
	for name, done := range map[string]func(*reporter, []*structs.AllocationState){
		"taken": (*reporter).ack, "not taken": (*reporter).requeue,
	} {
		t.Run(name, func(t *testing.T) {
			p := &countingPlane{got: make(chan struct{}, 100)}
			r := newReporter(p, "n", hclog.NewNullLogger(), func() {})
			r.add(reported("a", structs.ClientComplete))
			batch := r.take()
			gone := r.known()
			none := func(string) bool { return false }
			r.prune(gone, none)
			require.True(t, gone["a"], "not before its end is known")
			require.True(t, r.ended("a"))
			done(r, batch)
			r.send(t.Context())
			require.True(t, r.endKnown("a"))
			r.prune(gone, none)
			require.Empty(t, gone)
			require.Empty(t, r.latest)
			require.Empty(t, r.acked)
		})
	}
}

func TestTheLastReportIsSentAfterTheEnd(t *testing.T) {
	p := &countingPlane{got: make(chan struct{}, 100)}
	r := newReporter(p, "n", hclog.NewNullLogger(), func() {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.add(reported("a", structs.ClientComplete))
	r.run(ctx)
	require.Len(t, p.batches, 1)
}
