package structs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestTheLineOfAnAdoptionIsBounded(t *testing.T) {
	a := &structs.Adoption{Stopped: []string{"web", "db\nnext"}}
	require.Equal(t, "the control plane did not know all that the node has; rebuilt from what the node knows: 0 jobs, 0 allocations; "+
		`ended since, and stopped: ["web" "db\nnext"]`, a.String())
	for i := range 1000 {
		a.Stopped = append(a.Stopped, fmt.Sprintf("job-%d", i))
	}
	require.Contains(t, a.String(), `["web" "db\nnext" "job-0" "job-1" "job-2"] and 997 more`)
}
