package host

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// A program that is being started has its place whatever a listing says, which is older or
// shows an earlier program of that name; one that runs, until a newer listing has it not.
func TestAPlaceIsKeptAsLongAsItsProgramMayRun(t *testing.T) {
	web := &workload.Spec{ID: "web", Owner: "p"}
	exited := []*workload.Status{{ID: "web", State: workload.Exited, Owner: "p"}}
	running := []*workload.Status{{ID: "web", State: workload.Running, Owner: "p"}}
	for name, c := range map[string]struct {
		settled bool  // it has been started
		err     error // with
		list    []*workload.Status
		older   bool // the listing began before
		kept    bool
	}{
		"starting, and exited in the list":  {false, nil, exited, false, true},
		"starting, and not in the list":     {false, nil, nil, false, true},
		"started":                           {true, nil, running, false, true},
		"started, and not in the list":      {true, nil, nil, false, false},
		"started, and exited in the list":   {true, nil, exited, false, false},
		"started after the list":            {true, nil, nil, true, true},
		"not started":                       {true, errors.New("no"), nil, true, false},
		"not started, since it runs":        {true, abi.NewError(abi.AlreadyExists, "it runs"), nil, true, true},
		"not started, and exited before it": {true, errors.New("no"), exited, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			table := &programTable{}
			require.NoError(t, table.reserve(table.tick(), nil, web, 1))
			require.Equal(t, abi.AlreadyExists, abi.CodeOf(table.reserve(table.tick(), nil, web, 1)))
			before := table.tick()
			if c.settled {
				table.settle(web, c.err)
			}
			began := table.tick()
			if c.older {
				began = before
			}
			table.takeOver(began, c.list)
			_, kept := table.programs["web"]
			require.Equal(t, c.kept, kept)
			err := table.reserve(began, c.list, &workload.Spec{ID: "other", Owner: "p"}, 1)
			require.Equal(t, c.kept, err != nil, "%v", err)
			require.NoError(t, table.reserve(began, c.list, &workload.Spec{ID: "another", Owner: "q"}, 1), "another plugin's")
		})
	}
	table := &programTable{}
	table.takeOver(2, running)
	table.takeOver(1, nil)
	require.Contains(t, table.programs, "web", "an older listing has no effect")
	table.takeOver(2, nil)
	require.NotContains(t, table.programs, "web", "one of the same time has")
	table.takeOver(3, []*workload.Status{{ID: "old", State: workload.Running}})
	require.NotContains(t, table.programs, "old", "nobody's")
}
