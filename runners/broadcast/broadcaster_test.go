package broadcast

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

func state(id int) *structs.AllocationState {
	return &structs.AllocationState{ID: strconv.Itoa(id)}
}

func TestAListenerGetsWhatIsSent(t *testing.T) {
	var b Broadcaster
	l := b.Listen()
	for i := range 3 {
		require.NoError(t, b.Send(state(i)))
		require.Equal(t, strconv.Itoa(i), (<-l.Ch()).ID)
	}
}

func TestAnUnreadStateIsReplacedByTheNewest(t *testing.T) {
	var b Broadcaster
	l := b.Listen()
	for i := range 5 {
		require.NoError(t, b.Send(state(i)))
	}
	require.Equal(t, "4", (<-l.Ch()).ID)
	select {
	case s := <-l.Ch():
		t.Fatalf("a second state: %v", s)
	default:
	}
}

func TestANewListenerIsPrimedEvenAfterClose(t *testing.T) {
	var b Broadcaster
	require.NoError(t, b.Send(state(7)))
	require.Equal(t, "7", (<-b.Listen().Ch()).ID)
	b.Close()
	b.Close()
	l := b.Listen()
	require.Equal(t, "7", (<-l.Ch()).ID)
	_, open := <-l.Ch()
	require.False(t, open)
	l.Close()
	require.ErrorIs(t, b.Send(state(8)), ErrClosed)
}

func TestD16_ClosingABroadcasterKeepsWhatWaitsAndEndsEveryListener(t *testing.T) {
	var b Broadcaster
	l := b.Listen()
	require.NoError(t, b.Send(state(1)))
	b.Close()
	require.Equal(t, "1", (<-l.Ch()).ID)
	_, open := <-l.Ch()
	require.False(t, open)
}

func TestClosingAListenerWhileItReceives(t *testing.T) {
	var b Broadcaster
	l := b.Listen()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range l.Ch() {
		}
	}()
	l.Close()
	l.Close()
	<-done
	require.NoError(t, b.Send(state(1)))
}

func TestListenersComeAndGoDuringSends(t *testing.T) {
	var b Broadcaster
	const sends, readers = 500, 8
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for range 50 {
				l := b.Listen()
				select {
				case <-l.Ch():
				default:
				}
				l.Close()
			}
			last := -1
			for s := range b.Listen().Ch() {
				n, err := strconv.Atoi(s.ID)
				if err != nil || n < last {
					t.Errorf("got %q after %d", s.ID, last)
				}
				last = n
			}
			if last != sends-1 {
				t.Errorf("the last state was %d", last)
			}
		})
	}
	for i := range sends {
		require.NoError(t, b.Send(state(i)))
	}
	b.Close()
	wg.Wait()
}
