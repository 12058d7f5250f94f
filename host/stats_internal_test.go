package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
)

func TestCallsAreToldApartByTheTimeThatTheyTook(t *testing.T) {
	var c counters
	for _, took := range []time.Duration{0, 100 * time.Microsecond, 100*time.Microsecond + 1, time.Millisecond, 10 * time.Second, 10*time.Second + 1, time.Hour} {
		c.called(took, 0, 0, nil)
	}
	require.Equal(t, []CallsWithin{
		{100 * time.Microsecond, 2}, {time.Millisecond, 2}, {10 * time.Millisecond, 0}, {100 * time.Millisecond, 0}, {time.Second, 0}, {10 * time.Second, 1}, {0, 2},
	}, callsWithin(c.took))
	require.EqualValues(t, 7, c.s.Calls)
}

func TestEveryFunctionOfACapabilityIsCounted(t *testing.T) {
	n := 0
	for module, funcs := range capabilities {
		for name := range funcs {
			if module != abi.ModuleABI {
				require.NotNil(t, newUses()[module][name], "%s %s", module, name)
				n++
			}
		}
	}
	require.Equal(t, 31, n, "as the series of the metric are documented")
}
