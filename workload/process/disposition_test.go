package process

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDispositionOfASignalIsReadFromTheStatus(t *testing.T) {
	const term = uint64(1 << (syscall.SIGTERM - 1))
	for name, c := range map[string]struct {
		state                    string
		blocked, ignored, caught uint64
		want                     disposition
	}{
		"nothing":                           {"S (sleeping)", 0, 0, 0, deadly},
		"nothing, while it runs":            {"R (running)", 0, 0, 0, deadly},
		"other signals":                     {"S (sleeping)", ^term, ^term, ^term, deadly},
		"a handler":                         {"S (sleeping)", 0, 0, term, handled},
		"a handler that is blocked for now": {"R (running)", term, 0, term, handled},
		"ignored":                           {"S (sleeping)", 0, term, 0, handled},
		"waited for":                        {"S (sleeping)", term, 0, 0, waiting},
		"blocked while it runs":             {"R (running)", term, 0, 0, undecided},
		"blocked while it waits for a fork": {"D (disk sleep)", term, 0, 0, undecided},
	} {
		t.Run(name, func(t *testing.T) {
			status := fmt.Sprintf("Name:\tsh\nState:\t%s\nSigQ:\t0/1\nSigBlk:\t%016x\nSigIgn:\t%016x\nSigCgt:\t%016x\n", c.state, c.blocked, c.ignored, c.caught)
			does, ran := dispositionIn(status+"voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n", syscall.SIGTERM)
			require.Equal(t, c.want, does)
			if does != handled {
				require.Equal(t, "12 3 ", ran)
			}
		})
	}
	does, _ := dispositionIn("SigBlk:\tnot a number\n", syscall.SIGTERM)
	require.Equal(t, handled, does)
}
