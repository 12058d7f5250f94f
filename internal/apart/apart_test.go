package apart_test

import (
	"context"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/apart"
)

const program = "apart: testing"

func TestMain(m *testing.M) {
	apart.Enter(program, work)
	os.Exit(m.Run())
}

// work does what its first argument says.
func work(args []string, in []byte) any {
	switch args[0] {
	case "echo":
		return strings.Join(args[1:], " ") + string(in)
	case "spin", "deaf":
		if args[0] == "deaf" {
			signal.Ignore(syscall.SIGXCPU)
		}
		for n := uint64(0); ; n++ {
			if n == math.MaxUint64 {
				return n
			}
		}
	case "grow":
		var kept [][]byte
		for {
			kept = append(kept, make([]byte, 64<<20))
			clear(kept[len(kept)-1])
		}
	case "panic":
		panic("at the disco")
	case "kill":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
	return nil
}

var bounds = apart.Bounds{Bytes: 64 << 20, Time: time.Second, Answer: 1 << 10}

func TestWorkIsDoneApart(t *testing.T) {
	require.True(t, apart.Entered(program))
	require.False(t, apart.Entered("another"))
	var answer string
	used, err := apart.Run(t.Context(), program, bounds, []string{"echo", "a", ""}, []byte("input"), &answer)
	require.NoError(t, err)
	require.Equal(t, "a input", answer)
	require.Positive(t, used)
}

func TestWorkThatTakesTooMuchEndsAlone(t *testing.T) {
	for what, want := range map[string]string{
		"spin": `^it takes more than 1 s of a processor$`,
		"deaf": `^it takes more than 1 s of a processor$`, // which the kernel kills
		// The race detector is slow, and ends a process whose memory it cannot shadow.
		"grow":  `^it takes more than (64 MB of memory|1 s of a processor)$|ThreadSanitizer failed to allocate`,
		"panic": `^its process ended with exit status 2: panic: at the disco`,
		"kill":  `^its process ended with signal: killed; the machine may be short of memory$`,
	} {
		_, err := apart.Run(t.Context(), program, bounds, []string{what}, nil, new(string))
		var exceeded *apart.LimitError
		require.ErrorAs(t, err, &exceeded, what)
		require.Regexp(t, want, exceeded.Error(), what)
	}
	_, err := apart.Run(t.Context(), program, bounds, []string{"echo"}, make([]byte, 1<<10), new(string))
	require.EqualError(t, err, "its answer has more than 1024 bytes")
}

func TestTheContextEndsWork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := apart.Run(ctx, program, apart.Bounds{Bytes: 64 << 20, Time: time.Minute, Answer: 1}, []string{"spin"}, nil, new(string))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
