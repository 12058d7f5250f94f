package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/jobspec"
)

// block returns the first fenced block of a language on a page.
func block(t *testing.T, page, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```"+language+"\n")
	require.True(t, found, "%s has no %s block", page, language)
	code, _, _ := strings.Cut(rest, "```")
	return code
}

func TestTheDriversOfThePagesCompile(t *testing.T) {
	for _, page := range []string{"write-a-driver.md", "connect-a-driver.md"} {
		t.Run(page, func(t *testing.T) { compiles(t, page) })
	}
}

// compiles fails unless the first Go code of a page is a driver.
func compiles(t *testing.T, page string) {
	t.Helper()
	dir, err := os.MkdirTemp(".", "greeter-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(block(t, page, "go")), 0o600))
	out := filepath.Join(t.TempDir(), "greeter.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./"+dir)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	spec, err := host.Inspect(wasm, host.DefaultLimits().FileBytes)
	require.NoError(t, err)
	require.Equal(t, host.KindDriver, spec.Kind)
}

func TestTheJobOfThePageIsAJob(t *testing.T) {
	job, err := jobspec.Parse(jobspec.Options{Path: "write-a-driver.md", Content: []byte(block(t, "write-a-driver.md", "hcl"))})
	require.NoError(t, err)
	require.Equal(t, "greeting", *job.ID)
}
