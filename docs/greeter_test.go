package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	for _, page := range []string{"write-a-driver.md", "connect-a-driver.md", "start-processes.md", "state-and-upgrades.md"} {
		t.Run(page, func(t *testing.T) { compiles(t, page, host.KindDriver) })
	}
	t.Run("write-a-device-plugin.md", func(t *testing.T) { compiles(t, "write-a-device-plugin.md", host.KindDevice) })
}

// compiles fails unless the first Go code of a page is a plugin of that kind.
func compiles(t *testing.T, page string, kind host.Kind) {
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
	require.Equal(t, kind, spec.Kind)
}

// TestTheTestsOfThePagesPass has the second Go code of a page test the first. That of
// write-a-driver.md is run outside of the repository.
func TestTheTestsOfThePagesPass(t *testing.T) {
	test := exec.Command("go", "test")
	for _, page := range []string{"start-processes.md", "write-a-device-plugin.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.Len(t, blocks, 2, page)
		dir, err := os.MkdirTemp(".", "tested-")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		for i, name := range []string{"main.go", "main_test.go"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(blocks[i][1]), 0o600))
		}
		test.Args = append(test.Args, "./"+dir)
	}
	out, err := test.CombinedOutput()
	require.NoError(t, err, string(out))
}

// beside is the Go code that what else is on a page needs around it, in the order of the page;
// CODE stands for the page's.
var beside = map[string][]string{
	"write-a-driver.md": {"CODE"},
	"connect-a-driver.md": {
		`package main

import (
	"context"
	"io"

	"github.com/wasmnode/wasmnode/sdk/go/command"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

type connection interface {
	io.ReadWriteCloser
	CloseWrite() error
}

func (engine) run(context.Context, *driver.TaskHandle, []string, bool, driver.TerminalSize) (connection, error) {
	return nil, nil
}

func (engine) code(context.Context, *driver.TaskHandle) int32 { return 0 }

var _ driver.TaskStreamExecer = engine{}

CODE`,
		`package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

func TestEngine(t *testing.T) {
	CODE
}`,
	},
}

// TestWhatIsBesideTheDriversOfThePagesCompiles has all the Go code of a page in one package.
func TestWhatIsBesideTheDriversOfThePagesCompiles(t *testing.T) {
	for page, around := range beside {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
			require.Len(t, blocks, 1+len(around))
			dir, err := os.MkdirTemp(".", "beside-")
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(blocks[0][1]), 0o600))
			for i, code := range around {
				file := fmt.Sprintf("beside%d_test.go", i)
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(code, "CODE", blocks[i+1][1], 1)), 0o600))
			}
			out, err := exec.Command("go", "vet", "./"+dir).CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

func TestTheJobOfThePageIsAJob(t *testing.T) {
	job, err := jobspec.Parse(jobspec.Options{Path: "write-a-driver.md", Content: []byte(block(t, "write-a-driver.md", "hcl"))})
	require.NoError(t, err)
	require.Equal(t, "greeting", *job.ID)
}
