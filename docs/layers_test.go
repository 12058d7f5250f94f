package docs

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const modulePath = "github.com/wasmnode/wasmnode/"

// layer is a row of the README's table.
type layer struct {
	level    int
	standsOn []string
}

var layerRow = regexp.MustCompile("(?m)^\\| ([0-9]+) \\| `([^`]+)` \\| [^|]+ \\| ([^|]*) ?\\|$")

// layers reads the README's table, by folder.
func layers(t *testing.T) map[string]layer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	drawn := map[string]layer{}
	for _, m := range layerRow.FindAllStringSubmatch(string(text), -1) {
		level, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		var standsOn []string
		for name := range strings.SplitSeq(m[3], ",") {
			if name = strings.Trim(name, " `"); name != "" {
				standsOn = append(standsOn, name)
			}
		}
		slices.Sort(standsOn)
		drawn[m[2]] = layer{level, standsOn}
	}
	require.Greater(t, len(drawn), 15, "the README's table of layers has another form than this test reads")
	return drawn
}

// rowOf returns the row that a package belongs to: the longest folder that holds it.
func rowOf(drawn map[string]layer, pkg string) string {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if _, is := drawn[dir]; is {
			return dir
		}
	}
	return ""
}

// imported returns which packages of the project the product's packages import. Those
// named …test, and those of the documentation, are tests, which may look anywhere.
func imported(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", modulePath+"...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	graph := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], modulePath)
		if strings.HasSuffix(pkg, "test") || pkg == "docs" {
			continue
		}
		graph[pkg] = nil
		for _, to := range words[1:] {
			if to, ours := strings.CutPrefix(to, modulePath); ours {
				graph[pkg] = append(graph[pkg], to)
			}
		}
	}
	require.Greater(t, len(graph), 40)
	return graph
}

func TestTheLayersOfTheREADMEAreTheImportsOfTheCode(t *testing.T) {
	drawn := layers(t)
	real := map[string][]string{}
	for pkg, imports := range imported(t) {
		from := rowOf(drawn, pkg)
		require.NotEmpty(t, from, "package %s stands in no row of the README's table", pkg)
		for _, to := range imports {
			on := rowOf(drawn, to)
			// What authors test with in Go is what this package makes a program of.
			require.False(t, strings.HasSuffix(to, "test") && pkg+" "+to != "trial/testfile sdk/go/drivertest", "package %s imports %s, which is for tests", pkg, to)
			if on != from && !slices.Contains(real[from], on) {
				real[from] = append(real[from], on)
			}
		}
	}
	for name, row := range drawn {
		slices.Sort(real[name])
		require.Equal(t, row.standsOn, real[name], "what %s stands on: the README's table, and the code", name)
		for _, on := range row.standsOn {
			require.Less(t, drawn[on].level, row.level, "%s stands on %s, which is not on a lower layer", name, on)
		}
	}
}

// TestTheLinterKeepsTheLayers compares depguard's rules with the README's table: a rule
// for each row, which denies the project's packages and allows those that the row names.
func TestTheLinterKeepsTheLayers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	require.NoError(t, err)
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Mode  string   `yaml:"list-mode"`
						Files []string `yaml:"files"`
						Allow []string `yaml:"allow"`
						Deny  []struct {
							Pkg string `yaml:"pkg"`
						} `yaml:"deny"`
					} `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	rules := config.Linters.Settings.Depguard.Rules
	drawn := layers(t)
	for name, row := range drawn {
		rule, is := rules[name]
		require.True(t, is, "no rule of depguard is called %s", name)
		require.Equal(t, "lax", rule.Mode, name)
		require.Equal(t, "${config-path}/"+name+"/**", rule.Files[0], name)
		require.Equal(t, strings.TrimSuffix(modulePath, "/"), rule.Deny[0].Pkg, name)
		allowed := []string{modulePath + name}
		for _, on := range row.standsOn {
			allowed = append(allowed, modulePath+on)
		}
		require.ElementsMatch(t, allowed, rule.Allow, "what depguard allows %s", name)
		for other := range drawn {
			if strings.HasPrefix(other, name+"/") {
				require.Contains(t, rule.Files, "!${config-path}/"+other+"/**", "%s has a rule of its own", other)
			}
		}
	}
	for name := range rules {
		require.Contains(t, drawn, name, "depguard has a rule for a folder that is not drawn")
	}
}
