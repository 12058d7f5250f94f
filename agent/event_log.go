package agent

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/structs"
)

// eventLog writes what becomes of tasks and allocations to the agent's log, a record for each
// event. Its methods may be called concurrently.
type eventLog struct {
	logger hclog.Logger
	level  atomic.Int32 // an hclog.Level; Off: nothing is written
}

func newEventLog(logger hclog.Logger, level string) *eventLog {
	l := &eventLog{logger: logger.Named("event")}
	l.setLevel(level)
	return l
}

// setLevel takes the name of a level that the configuration may have.
func (l *eventLog) setLevel(level string) {
	l.level.Store(int32(hclog.LevelFromString(strings.ToLower(level))))
}

// tell writes what is new in an allocation's state. Before is as it was; nil: unknown. What an
// event says of variables and addresses was masked where the event was made.
func (l *eventLog) tell(before *structs.Allocation, now *structs.AllocationState) {
	level := hclog.Level(l.level.Load())
	if level == hclog.Off || before == nil {
		return
	}
	of := []any{"alloc_id", now.ID, "namespace", before.Namespace, "job", before.JobID, "group", before.TaskGroup}
	for _, task := range slices.Sorted(maps.Keys(now.TaskStates)) {
		for _, e := range newEvents(before.TaskStates[task], now.TaskStates[task]) {
			message := e.DisplayMessage
			if message == "" {
				message = e.Message
			}
			l.logger.Log(level, "task event", append(of[:len(of):len(of)], "task", task, "type", e.Type, "message", message)...)
		}
	}
	if before.ClientStatus != now.ClientStatus {
		l.logger.Log(level, "allocation is "+string(now.ClientStatus), append(of[:len(of):len(of)], "was", before.ClientStatus, "message", now.ClientDescription)...)
	}
}
