package host

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyCallsThatTakeLongAreTold(t *testing.T) {
	var r runningCalls
	now := time.Now()
	require.Empty(t, r.long(now))
	end := r.begin(&RunningCall{Operation: "young", Began: now.Add(1 - runningAfter)})
	defer end()
	endOld := r.begin(&RunningCall{Operation: "old", Began: now.Add(-runningAfter)})
	require.Equal(t, []RunningCall{{Operation: "old", Began: now.Add(-runningAfter)}}, r.long(now))
	endOld()
	require.Empty(t, r.long(now))
	require.Len(t, r.long(now.Add(time.Second)), 1)

	for i := range maxRunning + 1 {
		r.begin(&RunningCall{Operation: strconv.Itoa(i), Began: now.Add(-time.Hour - time.Duration(i))})
	}
	long := r.long(now)
	require.Len(t, long, maxRunning)
	require.Equal(t, strconv.Itoa(maxRunning), long[0].Operation, "the oldest is the first")
}
