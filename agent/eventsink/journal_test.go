package eventsink

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listenJournal takes entries, as systemd's journal does.
func listenJournal(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func entry(t *testing.T, l *net.UnixConn) string {
	t.Helper()
	text := make([]byte, 1<<20)
	n, err := l.Read(text)
	require.NoError(t, err)
	return string(text[:n])
}

func TestEachEventIsAnEntryOfTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	j := NewJournal(path)
	const one = `{"Topic":"Allocation","Type":"AllocationUpdated","Key":"a\nPRIORITY=0","Namespace":"default","Index":7}`
	const two = `{"Topic":"Node","Type":"NodeDrain","Key":"n","Index":7}`
	line := []byte(`{"Events":[` + one + `,` + two + `],"Index":7}`)
	require.Error(t, j.Deliver(t.Context(), "id", line), "there is no journal yet")
	l := listenJournal(t, path)
	require.NoError(t, j.Deliver(t.Context(), "id", line))
	assert.Equal(t, `MESSAGE=Allocation a PRIORITY=0: AllocationUpdated
PRIORITY=6
SYSLOG_IDENTIFIER=wasmnode
WASMNODE_TOPIC=Allocation
WASMNODE_TYPE=AllocationUpdated
WASMNODE_KEY=a PRIORITY=0
WASMNODE_NAMESPACE=default
WASMNODE_INDEX=7
WASMNODE_EVENT=`+one+"\n", entry(t, l))
	assert.True(t, strings.HasSuffix(entry(t, l), "WASMNODE_INDEX=7\nWASMNODE_EVENT="+two+"\n"))

	require.NoError(t, l.Close())
	require.NoError(t, os.RemoveAll(path))
	l = listenJournal(t, path) // it was started again
	require.NoError(t, j.Deliver(t.Context(), "id", line))
	assert.Contains(t, entry(t, l), "WASMNODE_KEY=a")
	require.NoError(t, j.Close())
}

func TestAnEventThatIsTooLongForTheJournalIsAnEntryWithoutIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listenJournal(t, path)
	j := NewJournal(path)
	defer func() { _ = j.Close() }()
	long := `{"Topic":"Job","Type":"JobRegistered","Key":"web","Index":7,"Payload":"` + strings.Repeat("x", 1<<20) + `"}`
	require.NoError(t, j.Deliver(t.Context(), "id", []byte(`{"Events":[`+long+`]}`)))
	assert.NotContains(t, entry(t, l), "WASMNODE_EVENT")
	var refused *Refused
	assert.True(t, errors.As(j.Deliver(t.Context(), "id", []byte("no JSON")), &refused))
}

// A journal that reads nothing has its queue full: an agent that ends does not wait for it.
func TestAJournalThatHangsHoldsNothingUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listenJournal(t, path)
	j := NewJournal(path)
	defer func() { _ = j.Close() }()
	line := []byte(`{"Events":[{"Topic":"Node","Type":"NodeDrain","Key":"n","Index":7}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	delivered := make(chan struct{})
	failed := make(chan error)
	go func() {
		for {
			if err := j.Deliver(ctx, "id", line); err != nil {
				failed <- err
				return
			}
			delivered <- struct{}{}
		}
	}()
	for full := false; !full; {
		select {
		case <-delivered:
		case <-time.After(100 * time.Millisecond): // it waits, or else is slow: it ends at once in both cases
			full = true
		}
	}
	began := time.Now()
	cancel()
	for {
		select {
		case <-delivered:
			continue
		case err := <-failed:
			require.Error(t, err)
		}
		break
	}
	assert.Less(t, time.Since(began), journalTimeout/2)
}
