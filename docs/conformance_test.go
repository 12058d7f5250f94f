package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const conformancePage = "conformance.md"

// behavior is a row of the page's tables.
type behavior struct {
	section string
	number  string
	tests   []string // as the page names them
	applies bool
}

var (
	numbered = regexp.MustCompile(`^\| ([0-9–]+) \| (.*) \| (.*) \|$`)
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
		b := behavior{section: section, number: m[1], applies: !strings.HasPrefix(m[3], "does not apply: ")}
		for _, name := range shownBy.FindAllString(m[3], -1) {
			b.tests = append(b.tests, strings.Trim(name, "`"))
		}
		require.True(t, !b.applies || len(b.tests) > 0 || strings.HasPrefix(m[3], "open: "), "%s %s: no test, and no reason", section, m[1])
		all = append(all, b)
	}
	return all
}

// testsIn are the test functions of a package's directory, by name.
func testsIn(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	found := map[string]*ast.FuncDecl{}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
				found[f.Name.Name] = f
			}
		}
	}
	return found
}

// runsOnPlugin reports whether a test runs on the mock driver plugin.
func runsOnPlugin(f *ast.FuncDecl) (is bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok {
				is = is || name.Name == "bubble" || name.Name == "twice" || name.Name == "newRealFixture"
			}
		}
		return !is
	})
	return is
}

func TestEveryTestThatThePageOnConformanceNamesIsThere(t *testing.T) {
	text, err := os.ReadFile(conformancePage)
	require.NoError(t, err)
	packages := map[string]map[string]*ast.FuncDecl{}
	names := shownBy.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		dir, name, part := m[1], m[2], m[3]
		if packages[dir] == nil {
			packages[dir] = testsIn(t, dir)
		}
		require.Contains(t, packages[dir], name, "%s has no such test", dir)
		if part != "" && name == "TestTranscripts" {
			require.FileExists(t, filepath.Join(root, dir, "testdata", part+".txt"))
		}
	}
}

// Of what applies in each package, at least this share is shown.
const enough = 0.9

func TestEnoughBehaviorsOfTheReferenceAreShown(t *testing.T) {
	runners := map[string]map[string]*ast.FuncDecl{}
	for _, dir := range []string{"runners/alloc", "runners/task"} {
		runners[dir] = testsIn(t, dir)
	}
	apply, shown := map[string]int{}, map[string]int{}
	for _, b := range behaviors(t) {
		if !b.applies {
			continue
		}
		apply[b.section]++
		is := false
		for _, name := range b.tests {
			dir, test, _ := strings.Cut(name, ".")
			test, _, _ = strings.Cut(test, "/")
			f := runners[dir][test]
			// Other packages have no driver below them.
			is = is || runners[dir] == nil || f != nil && runsOnPlugin(f)
		}
		if is {
			shown[b.section]++
		} else {
			t.Logf("%s %s is not shown", b.section, b.number)
		}
	}
	require.NotEmpty(t, apply)
	for section, n := range apply {
		t.Logf("%s: %d of %d", section, shown[section], n)
		require.GreaterOrEqual(t, float64(shown[section]), enough*float64(n), section)
	}
}
