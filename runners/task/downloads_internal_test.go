package task

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestALongDownloadTellsNowAndThenHowFarItHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &structs.TaskState{}
		event := structs.NewTaskEvent(structs.EventDownloadingArtifacts)
		state.Append(event)
		amended := 0
		d := &downloads{event: event, at: time.Now(), amend: func(e *structs.TaskEvent, text string) {
			amended++
			require.True(t, state.Amend(e, text))
		}}
		progress := d.of("http://user:password@host/a?token=secret")
		for i := range int64(1000) { // ten seconds
			time.Sleep(10 * time.Millisecond)
			progress(i<<10, 1000<<10)
		}
		require.Equal(t, 3, amended)
		require.Len(t, state.Events, 1)
		require.Equal(t, "Client is downloading artifacts: 899 KiB of 1000 KiB (http://host/a)", state.Events[0].DisplayMessage)
		require.Equal(t, "Client is downloading artifacts", event.DisplayMessage, "who has the event reads it as it was")
		time.Sleep(progressEvery)
		progress(4<<20, 0)
		require.Equal(t, "Client is downloading artifacts: 4.0 MiB (http://host/a)", state.Events[0].DisplayMessage)
		require.False(t, state.Amend(structs.NewTaskEvent(structs.EventStarted), "other"))
	})
}
