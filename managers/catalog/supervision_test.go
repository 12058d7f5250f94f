package catalog

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A transcript is a line for each event, and after it, indented, the state and the
// effects that follow.
func TestSupervisionFollowsItsTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/supervision/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			golden, err := os.ReadFile(file)
			require.NoError(t, err)
			got := replay(t, string(golden))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			require.Equal(t, string(golden), got)
		})
	}
}

func replay(t *testing.T, transcript string) string {
	start := time.Unix(0, 0)
	l := newSupervision(start)
	var out strings.Builder
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") || line == "" {
			continue
		}
		fmt.Fprintln(&out, line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		at, e := parseEvent(t, line)
		before := l
		after, effects := l.step(start.Add(at), e)
		require.Equal(t, before, l, "step must leave its receiver as it was")
		l = after
		fmt.Fprintf(&out, "  %s since %v", l.State, l.Since.Sub(start))
		if l.Reason != "" {
			fmt.Fprintf(&out, " (%s)", l.Reason)
		}
		if !l.UnconfirmedSince.IsZero() {
			fmt.Fprintf(&out, ", unconfirmed since %v", l.UnconfirmedSince.Sub(start))
		}
		for _, effect := range effects {
			switch effect := effect.(type) {
			case poll:
				fmt.Fprintf(&out, "; poll after %v", effect.after)
			case stopPolling:
				fmt.Fprint(&out, "; stop polling")
			case failTask:
				fmt.Fprintf(&out, "; fail %s", effect.task)
			}
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func parseEvent(t *testing.T, line string) (time.Duration, event) {
	words := strings.SplitN(line, " ", 3)
	at, err := time.ParseDuration(words[0])
	require.NoError(t, err, line)
	rest := ""
	if len(words) == 3 {
		rest = words[2]
	}
	switch words[1] {
	case "answered":
		e := answered{}
		var health string
		health, rest, _ = strings.Cut(rest, " ")
		e.Healthy = health == "healthy"
		if wish, ok := strings.CutPrefix(rest, "next="); ok {
			wish, rest, _ = strings.Cut(wish, " ")
			e.NextPoll, err = time.ParseDuration(wish)
			require.NoError(t, err, line)
		}
		e.Text = rest
		return at, e
	case "refused":
		return at, refused{reason: rest}
	case "exhausted":
		return at, exhausted{rest}
	case "faulted":
		return at, faulted{rest}
	case "taskfaulted":
		return at, taskFaulted{task: rest, reason: "trapped"}
	case "revived":
		return at, revived{}
	case "removed":
		return at, removed{fileRemoved}
	}
	t.Fatalf("no such event: %s", line)
	return 0, nil
}

func TestTheTasksWhoseFaultsAreRememberedAreBounded(t *testing.T) {
	l := newSupervision(time.Unix(0, 0))
	for i := range 2 * maxFaultyTasks {
		l, _ = l.step(time.Unix(0, int64(i)), taskFaulted{task: fmt.Sprint(i)})
		require.LessOrEqual(t, len(l.taskFaults), maxFaultyTasks)
	}
	require.Contains(t, l.taskFaults, fmt.Sprint(2*maxFaultyTasks-1))
	require.NotContains(t, l.taskFaults, "0", "the oldest are forgotten")
}

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: 5, 2: 10, 3: 20, 4: 40, 5: 80, 6: 120, 7: 120, 1 << 30: 120} {
		require.Equal(t, want*time.Second, Backoff(RetryPause, MaxRetryPause, attempt), attempt)
	}
}
