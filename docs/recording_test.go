package docs

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record the README's commands again")

const (
	// recordingFile is the picture of a terminal that the README begins with.
	recordingFile = "recording.svg"
	// The recording's measures: characters in a line, of which each is at most so many pixels
	// wide, lines of one command's output, and the seconds from one line to the next.
	recordingColumns, recordingWidth = 104, 8.0
	recordingLines                   = 14
	recordingPace                    = 0.25
)

// step is a command of a session and what it printed.
type step struct {
	command string
	output  []string
}

// stepsOf splits what a session printed at its commands.
func stepsOf(out string) (steps []step) {
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n ")
		if command, is := strings.CutPrefix(line, "$ "); is {
			steps = append(steps, step{command: command})
		} else if n := len(steps); n > 0 && line != "" {
			steps[n-1].output = append(steps[n-1].output, line)
		}
	}
	return steps
}

// record draws steps as they follow each other. Whoever wants no movement, or whose viewer knows
// none, sees all at once.
func record(steps []step) []byte {
	var b, text bytes.Buffer
	n := 0
	line := func(class, s string) {
		n++
		fmt.Fprintf(&text, `<text class=%q style="animation-delay:%.2fs" x="12" y="%d">`, class, float64(n)*recordingPace, 14+18*n)
		_ = xml.EscapeText(&text, []byte(s)) // a buffer takes all
		text.WriteString("</text>\n")
	}
	for _, s := range steps {
		line("line command", "$ "+cut(s.command))
		for i, out := range s.output {
			if i == recordingLines {
				line("line", "…")
				break
			}
			line("line", cut(out))
		}
	}
	width, height := 24+int(recordingColumns*recordingWidth), 28+18*n
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="A terminal in which a node is started and runs a job">
<style>
.line { font: 13px monospace; fill: #e8eaf2; white-space: pre; animation: shown 0.1s both; }
.command { fill: #b0a8ff; font-weight: bold; }
@keyframes shown { from { opacity: 0; } }
@media (prefers-reduced-motion) { .line { animation: none; } }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#14161d"/>
%s</svg>
`, width, height, text.Bytes())
	return b.Bytes()
}

// cut leaves of a line what the recording has room for.
func cut(s string) string {
	if utf8.RuneCountInString(s) <= recordingColumns {
		return s
	}
	return string([]rune(s)[:recordingColumns-1]) + "…"
}

// recorded are the steps of a recording.
func recorded(t *testing.T, picture []byte) (steps []step) {
	t.Helper()
	var svg struct {
		Lines []struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		} `xml:"text"`
	}
	require.NoError(t, xml.Unmarshal(picture, &svg))
	for _, l := range svg.Lines {
		if strings.HasSuffix(l.Class, "command") {
			steps = append(steps, step{command: strings.TrimPrefix(l.Text, "$ ")})
		} else {
			steps[len(steps)-1].output = append(steps[len(steps)-1].output, l.Text)
		}
	}
	return steps
}

// changing is what is another each time: IDs, times and numbers.
var changing = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f-]+)?|[0-9][0-9A-Z:.+-]*`)

// shape is what stays the same of steps: the commands, and the first words of what they print.
func shape(steps []step) (lines []string) {
	for _, s := range steps {
		lines = append(lines, "$ "+cut(s.command))
		if len(s.output) > 0 {
			words := strings.Fields(changing.ReplaceAllString(s.output[0], "N"))
			lines = append(lines, strings.Join(words[:min(3, len(words))], " "))
		}
	}
	return lines
}

// checkRecording compares the recording with a session of the README's commands. With -update it
// is made again.
func checkRecording(t *testing.T, out string) {
	t.Helper()
	steps := stepsOf(out)
	if *update {
		require.NoError(t, os.WriteFile(recordingFile, record(steps), 0o644))
	}
	picture, err := os.ReadFile(recordingFile)
	require.NoError(t, err)
	require.Equal(t, shape(steps), shape(recorded(t, picture)), "record it again: go test ./docs -run TestCommandsWork/README -update")
}

// TestTheRecordingIsOfTheReadmesCommands needs no node: each command that the README has is in the
// recording, in its order, and printed something where it asks a node.
func TestTheRecordingIsOfTheReadmesCommands(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), "](docs/"+recordingFile+")")
	picture, err := os.ReadFile(recordingFile)
	require.NoError(t, err)
	require.Less(t, len(picture), 20_000, "it is small")
	var want, got []string
	for _, c := range console(string(readme)) {
		want = append(want, cut(c))
	}
	for _, s := range recorded(t, picture) {
		got = append(got, s.command)
		asks := strings.HasPrefix(s.command, "bin/wasmnode") && !strings.HasSuffix(s.command, "&")
		require.Equal(t, asks, len(s.output) > 0, "what %q printed", s.command)
	}
	require.Equal(t, want, got)
}

func TestASessionIsRecordedAndReadAgain(t *testing.T) {
	long := strings.Repeat("ä", recordingColumns+1)
	out := "before\n$ a <b> & c\none \"two\" 2026-11-23T10:00:00Z\n\n" + strings.Repeat("more\n", recordingLines) + "$ d\n" + long + "\n$ e &\n"
	steps := stepsOf(out)
	again := recorded(t, record(steps))
	require.Len(t, again, 3)
	require.Equal(t, "a <b> & c", again[0].command)
	require.Len(t, again[0].output, recordingLines+1)
	require.Equal(t, "…", again[0].output[recordingLines])
	require.Equal(t, cut(long), again[1].output[0])
	require.Equal(t, []string{"$ a <b> & c", `one "two" N`, "$ d", cut(long), "$ e &"}, shape(again))
}
