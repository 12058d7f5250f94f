package logfile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload/logfile"
)

// Whatever is written, rotated and opened again, what came after a mark is counted.
func TestWhatCameAfterAMarkIsCounted(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		base := filepath.Join(t.TempDir(), "task.stdout")
		w := open(t, base, 1+random.IntN(3), 16)
		require.NoError(t, w.Mark("me", []byte("begin")))
		text, since := "begin", 0
		for step := range 200 {
			switch random.IntN(5) {
			case 0:
				text, since = fmt.Sprint("at ", step), 0
				require.NoError(t, w.Mark("me", []byte(text)))
			case 1:
				require.NoError(t, w.Close())
				w = open(t, base, 2, 16)
			default:
				line := strings.Repeat("x", random.IntN(12)) + "\n"
				write(t, w, line)
				since += len(line)
			}
			gotText, gotSince := w.Marked("me")
			require.Equal(t, text, string(gotText), "seed %d, step %d", seed, step)
			require.EqualValues(t, since, gotSince, "seed %d, step %d", seed, step)
		}
		gotText, gotSince := w.Marked("somebody else")
		require.Empty(t, gotText)
		require.Zero(t, gotSince)
	}
}

func TestAMarkIsNotWrittenWhereTheTaskPutsALink(t *testing.T) {
	dir := t.TempDir()
	victim, base := filepath.Join(dir, "victim"), filepath.Join(dir, "task.stdout")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, ".task.stdout.mark")))
	w := open(t, base, 2, 8)
	require.Error(t, w.Mark("me", []byte("x")))
	write(t, w, "1234567\n1234567\n1234567\n")
	text, _ := w.Marked("me")
	require.Empty(t, text)
	content, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	require.Error(t, w.Mark("me", make([]byte, logfile.MaxMarkBytes)))
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Mark("me", nil), os.ErrClosed)
}

func TestAMarkThatCannotBeReadIsNone(t *testing.T) {
	base := filepath.Join(t.TempDir(), "task.stdout")
	w := open(t, base, 2, 1<<10)
	for _, content := range []string{"", "{", `{"owner":"me","offset":-1}`, `{"owner":"me","number":-1}`, "\x00\x00"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(base), ".task.stdout.mark"), []byte(content), 0o600))
		text, since := w.Marked("me")
		require.Empty(t, text, content)
		require.Zero(t, since, content)
	}
}
