package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/secrets"
)

// built returns what builds a masker of a secret, and counts how often it does.
func built(secret string, times *int) func() *secrets.Masker {
	return func() *secrets.Masker {
		*times++
		k := &secrets.Masker{}
		k.Hide(secret)
		return k
	}
}

func TestTheSecretsOfATaskAreGatheredOnce(t *testing.T) {
	var m maskers
	one := &wasmnodev1.TaskConfig{Id: "one", Env: map[string]string{"A": "1", "B": "2"}}
	times := 0
	first := m.of(one, nil, nil, built("swordfish", &times))
	require.Same(t, first, m.of(one, nil, nil, built("swordfish", &times)))
	require.Equal(t, 1, times)
	require.Equal(t, "a masked-ma", m.of(one, nil, nil, nil).Line("a swordfish", false))

	m.of(one, []string{"A"}, nil, built("swordfish1", &times))
	one.Env["A"] = "3"
	m.of(one, nil, nil, built("swordfish2", &times))
	one.DriverConfig = []byte("{}")
	m.of(one, nil, nil, built("swordfish5", &times))
	m.of(one, nil, []byte("{}"), built("swordfish3", &times))
	m.of(nil, nil, nil, built("swordfish4", &times))
	require.Equal(t, 6, times, "of other secrets, other variables, another block, another configuration, no task")

	m.forget(&wasmnodev1.TaskConfig{Id: "one"})
	require.Len(t, m.kept, 1, "of no task")
	require.Equal(t, len("swordfish4"), m.size)
	m.reset()
	m.of(nil, nil, nil, built("swordfish4", &times))
	require.Equal(t, 7, times)
}

func TestWhatIsKeptOfSecretsIsBounded(t *testing.T) {
	var m maskers
	times := 0
	tasks := make([]*wasmnodev1.TaskConfig, maxMaskers+1)
	for i := range tasks {
		tasks[i] = &wasmnodev1.TaskConfig{Id: fmt.Sprint(i)}
		m.of(tasks[i], nil, nil, built("swordfish", &times))
		m.of(tasks[0], nil, nil, built("swordfish", &times)) // it is used again and again
	}
	require.Len(t, m.kept, maxMaskers)
	require.Equal(t, len(tasks), times)
	m.of(tasks[1], nil, nil, built("swordfish", &times))
	require.Equal(t, len(tasks)+1, times, "the one that was not used for longest has gone")

	large := strings.Repeat("x", maxMaskerBytes)
	m.of(&wasmnodev1.TaskConfig{Id: "large"}, nil, nil, built(large, &times))
	require.Len(t, m.kept, 1)
	require.Equal(t, maxMaskerBytes, m.size, "as much as one task may have")
}
