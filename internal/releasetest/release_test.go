package releasetest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
)

var update = flag.Bool("update", false, "make go.mod and go.sum of all modules tidy")

func TestAnAuthorsModuleRequiresFewerThanTenModules(t *testing.T) {
	author := newOutside(t)
	author.write(t, "go.mod", "module example.com/greeter\n\ngo 1.24.0\n")
	driver, test := page(t)
	author.write(t, "main.go", driver)
	author.write(t, "main_test.go", test)
	author.run(t, nil, "go", "mod", "edit", "-require="+product+"/sdk/go@"+version)
	author.run(t, nil, "go", "mod", "tidy")
	listed := strings.Fields(author.run(t, nil, "go", "list", "-m", "-f", "{{.Path}}", "all"))
	require.Less(t, len(listed), 10, "%v", listed)
	require.Contains(t, listed, product+"/abi")
	require.NotContains(t, listed, product, "an author does not require the node")

	author.run(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", "greeter.wasm", ".")
	author.isDriver(t)
	author.run(t, nil, "go", "vet", "./...")
	require.Contains(t, author.run(t, nil, "go", "test", "-v", "./..."), "--- PASS: TestGreeter/compiled")
}

// TestAnAuthorBuildsInAWorkspaceWithAClone has the driver of docs/write-a-driver.md built as that page
// says, with a clone in the place of a release.
func TestAnAuthorBuildsInAWorkspaceWithAClone(t *testing.T) {
	dir := t.TempDir()
	clone, err := filepath.Abs(root)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(clone, filepath.Join(dir, "wasmnode")))
	author := outside{dir: filepath.Join(dir, "greeter"), env: append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath")}
	require.NoError(t, os.Mkdir(author.dir, 0o700))
	driver, _ := page(t)
	author.write(t, "main.go", driver)
	author.run(t, nil, "go", "mod", "init", "example.com/greeter")
	author.run(t, nil, "sh", "-e", "-c", script(t, "go work init"))
	build, _, _ := strings.Cut(script(t, "GOOS=wasip1"), "\n")
	author.run(t, nil, "sh", "-c", build)
	author.isDriver(t)
}

func TestTheBinaryIsInstalledByItsVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the whole of the binary")
	}
	machine := newOutside(t)
	bin := t.TempDir()
	machine.run(t, []string{"GOBIN=" + bin}, "go", "install", product+"/cmd/wasmnode@"+version)
	require.Contains(t, machine.run(t, nil, filepath.Join(bin, "wasmnode"), "version"), "wasmnode")
}

// TestTheModulesAreTidy does what "go mod tidy" cannot while a version is not published:
// it has the modules of the clone replace each other, in a copy of go.mod.
func TestTheModulesAreTidy(t *testing.T) {
	if testing.Short() {
		t.Skip("loads all requirements of all requirements")
	}
	for path, dir := range modules {
		t.Run(filepath.Base(path), func(t *testing.T) {
			real, work := filepath.Join(root, dir), t.TempDir()
			gomod := filepath.Join(work, "go.mod")
			env := append(os.Environ(), "GOWORK=off", "GOFLAGS=")
			for _, name := range []string{"go.mod", "go.sum"} {
				text, err := os.ReadFile(filepath.Join(real, name))
				if !os.IsNotExist(err) { // nothing is required, nothing is summed up
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(filepath.Join(work, name), text, 0o600))
				}
			}
			for other, at := range modules {
				absolute, err := filepath.Abs(filepath.Join(root, at))
				require.NoError(t, err)
				if other != path {
					run(t, real, env, "go", "mod", "edit", "-replace="+other+"="+absolute, gomod)
				}
			}
			run(t, real, env, "go", "mod", "tidy", "-modfile="+gomod)
			for other := range modules {
				run(t, real, env, "go", "mod", "edit", "-dropreplace="+other, gomod)
			}
			for _, name := range []string{"go.mod", "go.sum"} {
				text, err := os.ReadFile(filepath.Join(work, name))
				if os.IsNotExist(err) {
					continue
				}
				require.NoError(t, err)
				if *update {
					require.NoError(t, os.WriteFile(filepath.Join(real, name), text, 0o644))
				}
				committed, err := os.ReadFile(filepath.Join(real, name))
				require.NoError(t, err)
				require.Equal(t, string(committed), string(text), "run: go test ./internal/releasetest -run Tidy -update")
			}
		})
	}
}

func TestNothingThatIsPublishedIsReplaced(t *testing.T) {
	replacement := regexp.MustCompile(`(?m)^(replace|exclude)\b`)
	for _, dir := range modules {
		text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		require.NoError(t, err)
		require.False(t, replacement.Match(text), "go install refuses it: %s/go.mod", dir)
	}
}

// page returns the driver of docs/write-a-driver.md and its test.
func page(t *testing.T) (driver, test string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "write-a-driver.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 2)
	return blocks[0][1], blocks[1][1]
}

// script returns the shell's lines of docs/write-a-driver.md that begin so.
func script(t *testing.T, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "write-a-driver.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```sh\n"+begin)
	require.True(t, found, "no script begins with %s", begin)
	lines, _, _ := strings.Cut(rest, "```")
	return begin + lines
}

// isDriver fails unless greeter.wasm is one.
func (o *outside) isDriver(t *testing.T) {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join(o.dir, "greeter.wasm"))
	require.NoError(t, err)
	spec, err := host.Inspect(wasm, host.DefaultLimits().FileBytes)
	require.NoError(t, err)
	require.Equal(t, host.KindDriver, spec.Kind)
}

func (o *outside) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o600))
}
