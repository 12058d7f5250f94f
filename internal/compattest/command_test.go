package compattest

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tables are the files of testdata with commands, and what their agents are configured with.
var tables = []*table{{name: "commands"}, {name: "commands-acl", acls: true}}

// table is a file of commands.
type table struct {
	name string
	acls bool
}

// requests is the file of what the stock nomad asks for when they are run.
func (tab *table) requests() string {
	return "testdata/requests" + strings.TrimPrefix(tab.name, "commands") + ".txt"
}

// command is one of a table.
type command struct {
	line  string // without "nomad"
	exit  int
	out   []*regexp.Regexp
	after []wait
	// runs is how long it is let run; 0: it ends by itself.
	runs time.Duration
	// fails is why it does not work here; empty: it does.
	fails string
	// elsewhere is why it does not work with Nomad's own agent as the tests start it.
	elsewhere string
}

// wait is what has to be before the next command: wait JOB STATUS, canary JOB, settled JOB.
type wait struct{ what, job, status string }

// commands reads the table.
func (tab *table) commands(t *testing.T) (list []*command) {
	t.Helper()
	f, err := os.Open("testdata/" + tab.name + ".txt")
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			list = append(list, &command{line: line})
		default:
			list[len(list)-1].set(t, strings.TrimSpace(line))
		}
	}
	require.Greater(t, len(list), 40)
	return list
}

func (c *command) set(t *testing.T, line string) {
	t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	var err error
	switch word {
	case "exit":
		c.exit, err = strconv.Atoi(rest)
	case "out":
		var re *regexp.Regexp
		re, err = regexp.Compile(rest)
		c.out = append(c.out, re)
	case "for":
		c.runs, err = time.ParseDuration(rest)
	case "fails":
		c.fails = rest
	case "elsewhere":
		c.elsewhere = rest
	case "wait":
		job, status, _ := strings.Cut(rest, " ")
		c.after = append(c.after, wait{word, job, status})
	case "canary", "settled":
		c.after = append(c.after, wait{word, rest, ""})
	default:
		require.FailNow(t, "no such word", "%q under %q", word, c.line)
	}
	require.NoError(t, err, c.line)
}
