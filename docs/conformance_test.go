package docs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const conformancePage = "conformance.md"

// behavior is a row of the page's tables.
type behavior struct {
	section string
	first   int // the numbers of the row are first, first+1, … (rows of them)
	rows    int
	tests   []string // as the page names them
	applies bool
}

// inventory is how many behaviors each list of the page has: one of each of the reference's
// tests where the numbers are the reference's.
var inventory = []struct {
	section string
	rows    int
	skipped int // a number that is not a test
}{
	{section: "Allocation runner", rows: 100},
	{section: "Life cycle of tasks", rows: 9},
	{section: "Task runner", rows: 138, skipped: 63},
	{section: "Restart policy", rows: 10},
	{section: "Waiting for other allocations", rows: 12},
	{section: "Driver manager", rows: 7},
	{section: "Device manager", rows: 9},
	{section: "State", rows: 18},
	{section: "Events of drivers", rows: 2},
	{section: "Broadcaster", rows: 5},
	{section: "Garbage collection", rows: 5},
	{section: "Allocation directories", rows: 14},
	{section: "Task environment", rows: 23},
}

var (
	numbered = regexp.MustCompile(`^\| ([0-9]+)(?:–([0-9]+))? \| (.*) \| (.*) \|$`)
	shownBy  = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz)\\w+)(?:/([a-z-]+))?`")
)

// behaviors reads the page's lists: the tables whose rows begin with a number.
func behaviors(t *testing.T) (all []behavior) {
	t.Helper()
	text, err := os.ReadFile(conformancePage)
	require.NoError(t, err)
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, is := strings.CutPrefix(line, "## "); is {
			section = title
		}
		m := numbered.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		first, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		last, err := strconv.Atoi(cmp.Or(m[2], m[1]))
		require.NoError(t, err)
		b := behavior{section: section, first: first, rows: last - first + 1, applies: !strings.HasPrefix(m[4], "does not apply: ")}
		for _, name := range shownBy.FindAllString(m[4], -1) {
			b.tests = append(b.tests, strings.Trim(name, "`"))
		}
		require.True(t, !b.applies || len(b.tests) > 0 || strings.HasPrefix(m[4], "open: "), "%s %d: no test, and no reason", section, first)
		all = append(all, b)
	}
	return all
}

func TestEveryTestThatThePageOnConformanceNamesIsThere(t *testing.T) {
	text, err := os.ReadFile(conformancePage)
	require.NoError(t, err)
	packages := map[string]testFiles{}
	names := shownBy.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		dir, name, part := m[1], m[2], m[3]
		if packages[dir] == nil {
			packages[dir] = testsIn(t, dir)
		}
		require.True(t, packages[dir][name] != nil, "%s has no test %s", dir, name)
		if part != "" && name == "TestTranscripts" {
			require.FileExists(t, filepath.Join(root, dir, "testdata", part+".txt"))
		}
	}
}

// Of what applies in each list, at least this share is shown on the real layers.
const enough = 0.9

func TestEnoughBehaviorsOfTheReferenceAreShown(t *testing.T) {
	counts, all := map[string]tally{}, tally{}
	packages := map[string]testFiles{}
	for _, b := range behaviors(t) {
		if counts[b.section] == nil {
			counts[b.section] = tally{}
		}
		how := b.shown(t, packages)
		if how == inProcess || how == open {
			t.Logf("%s %d: %s", b.section, b.first, how)
		}
		counts[b.section].add(how, b.rows)
		all.add(how, b.rows)
	}
	table := []string{"| list | behaviours | do not apply | apply | on plugins | with none below | in process | open |", "|---|---|---|---|---|---|---|---|"}
	for _, list := range inventory {
		c := counts[list.section]
		require.NotNil(t, c, list.section)
		table = append(table, c.row(list.section))
		require.GreaterOrEqual(t, float64(c.real()), enough*float64(c.apply()), list.section)
	}
	table = append(table, all.row("all"))
	require.Len(t, counts, len(inventory))
	text, err := os.ReadFile(conformancePage)
	require.NoError(t, err)
	counted := strings.Join(table, "\n") + "\n"
	require.True(t, strings.Contains(string(text), counted), "the page's counts are to be\n%s", counted)
}

// TestEveryBehaviorOfTheReferenceIsOnThePage counts the rows: each number is there once.
func TestEveryBehaviorOfTheReferenceIsOnThePage(t *testing.T) {
	rows := map[string][]int{}
	for _, b := range behaviors(t) {
		for n := b.first; n < b.first+b.rows; n++ {
			rows[b.section] = append(rows[b.section], n)
		}
	}
	for _, list := range inventory {
		var want []int
		for n := 1; n <= list.rows; n++ {
			if n != list.skipped {
				want = append(want, n)
			}
		}
		require.Equal(t, want, rows[list.section], list.section)
	}
}

// howShown is on what the best of a behavior's tests runs.
type howShown string

const (
	notApplying howShown = "does not apply"
	onPlugin    howShown = "on plugins"
	noneBelow   howShown = "with none below"
	inProcess   howShown = "in process"
	open        howShown = "open"
)

// lowest are the packages that have no plugin below them: their tests run on all there is.
var lowest = map[string]bool{
	"runners/allocdir": true, "runners/broadcast": true, "runners/check": true, "runners/network": true, "runners/restart": true,
	"runners/taskenv": true, "runners/watcher": true, "state": true, "internal/boltfile": true,
	"workload/process": true,
}

// shown tells on what a behavior is shown.
func (b behavior) shown(t *testing.T, packages map[string]testFiles) howShown {
	t.Helper()
	if !b.applies {
		return notApplying
	}
	how := open
	for _, name := range b.tests {
		dir, test, _ := strings.Cut(name, ".")
		test, _, _ = strings.Cut(test, "/")
		if packages[dir] == nil {
			packages[dir] = testsIn(t, dir)
		}
		switch {
		case packages[dir].reachesPlugin(test):
			return onPlugin
		case lowest[dir]:
			how = noneBelow
		case how == open:
			how = inProcess
		}
	}
	return how
}

// tally counts behaviors by how they are shown.
type tally map[howShown]int

func (c tally) add(how howShown, n int) { c[how] += n }

func (c tally) real() int { return c[onPlugin] + c[noneBelow] }

func (c tally) apply() int { return c.real() + c[inProcess] + c[open] }

func (c tally) row(title string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d |",
		title, c[notApplying]+c.apply(), c[notApplying], c.apply(), c[onPlugin], c[noneBelow], c[inProcess], c[open])
}
