package node

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/hostinfo"

	"github.com/wasmnode/wasmnode/structs"
)

// readings measures with the times that the machine tells then.
type readings struct {
	cpu   hostCPU
	begin time.Time
}

func (r *readings) at(after time.Duration, err error, times ...hostinfo.Times) []structs.ProcessorUsage {
	return r.cpu.measure(r.begin.Add(after), func() ([]hostinfo.Times, error) { return times, err })
}

func TestTheProcessorsUseIsThatSinceItWasLastMeasured(t *testing.T) {
	r := readings{begin: time.Now()}
	sinceStart := []structs.ProcessorUsage{{Name: "cpu0", User: 25, Idle: 75}}
	require.Equal(t, sinceStart, r.at(0, nil, hostinfo.Times{CPU: "cpu0", User: 900, Idle: 2700}), "at first since the machine started")

	busy := hostinfo.Times{CPU: "cpu0", User: 901, Nice: 1, System: 1, Steal: 1, Idle: 2703, Iowait: 1}
	require.Equal(t, sinceStart, r.at(cpuWindow/2, nil, busy), "too soon to tell another")
	now := []structs.ProcessorUsage{{Name: "cpu0", User: 25, System: 12.5, Idle: 50}}
	require.Equal(t, now, r.at(cpuWindow, nil, busy))

	require.Equal(t, now, r.at(2*cpuWindow, errors.New("no /proc")), "better the last than none")
	more := hostinfo.Times{CPU: "cpu1", System: 1, Idle: 3}
	require.Equal(t, []structs.ProcessorUsage{{Name: "cpu1", System: 25, Idle: 75}}, r.at(3*cpuWindow, nil, busy, more),
		"one that has not counted on tells nothing, and one that is new counts from its start")
}

func TestTheProcessorsUseInMHzIsTheirShareOfAll(t *testing.T) {
	require.InDelta(t, 750, cpuMHz([]structs.ProcessorUsage{{Idle: 50}, {Idle: 75}}, 2000), 1e-9)
	require.Zero(t, cpuMHz(nil, 2000))
}
