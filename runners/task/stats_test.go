package task_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/task"
)

func TestStatsAreMeasuredWhenTheyAreRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		ctx := context.Background()
		first, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.NotNil(t, first.Now)
		require.Nil(t, first.Before)
		again, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, first, again, "within a second they are the same")
		time.Sleep(2 * time.Second)
		later, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, first.Now, later.Before)
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		other, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.Nil(t, other.Before, "another run is measured anew")
		f.finish()
		_, err = f.r.Stats(ctx)
		require.ErrorIs(t, err, task.ErrNotRunning)
	})
}

func TestADriverWithoutStatsIsAskedOnceForEachRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		asked := 0
		f.world.Fail("stats", func() error {
			asked++
			return abi.NewError(abi.Unimplemented, "no stats")
		})
		f.start()
		time.Sleep(time.Hour)
		require.Zero(t, asked, "nobody looked")
		for n := range 3 {
			_, err := f.r.Stats(t.Context())
			require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
			require.Equal(t, n+1, asked)
		}
		f.world.Fail("stats", func() error { panic("no stats") })
		_, err := f.r.Stats(t.Context())
		require.EqualError(t, err, "task stats: the driver panicked: no stats")
		require.Equal(t, []string{received, setup, begun}, f.events(), "the task does not suffer")
		f.finish()
	})
}
