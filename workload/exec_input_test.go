package workload_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

func TestTheSizeThatCameBeforeTheInputIsTheFirst(t *testing.T) {
	for range 100 { // which of two that are there a select takes is chance
		size, in := workload.Size{Rows: 50, Columns: 132}, workload.NewInput()
		in.Resize(size)
		in.End()
		require.Equal(t, size, in.FirstSize(t.Context(), time.Minute))
		in.Close()
	}
}

func TestTheFirstSizeIsWaitedForUntilSomethingElseComes(t *testing.T) {
	size := workload.Size{Rows: 50, Columns: 132}
	for name, c := range map[string]struct {
		feed func(*workload.Input)
		want workload.Size
		took time.Duration
	}{
		"a size": {func(in *workload.Input) { in.Resize(size) }, size, 0},
		"a size late": {func(in *workload.Input) {
			time.Sleep(time.Second)
			in.Resize(size)
		}, size, time.Second},
		"input":   {func(in *workload.Input) { in.Feed([]byte("ls\n")) }, workload.Size{}, 0},
		"its end": {(*workload.Input).End, workload.Size{}, 0},
		"nothing": {func(*workload.Input) {}, workload.Size{}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := workload.NewInput()
				defer in.Close()
				go c.feed(in)
				begin := time.Now()
				require.Equal(t, c.want, in.FirstSize(t.Context(), time.Minute))
				require.Equal(t, c.took, time.Since(begin))
			})
		})
	}
}
