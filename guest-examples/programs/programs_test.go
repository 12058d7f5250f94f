package programs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// result is what a program left.
type result struct {
	code           uint32
	stdout, stderr string
}

// cache makes each program cost one compilation.
var cache = codetest.Cache()

// run runs a program to its end, with texts as /texts and an empty /local.
func run(t *testing.T, wasm []byte, args ...string) result {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	defer func() { _ = r.Close(ctx) }()
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var stdout, stderr bytes.Buffer
	_, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().
		WithArgs(append([]string{"program"}, args...)...).
		WithEnv("GREETING", "hello").
		WithStdout(&stdout).WithStderr(&stderr).
		WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime().WithSysNanosleep().
		WithFSConfig(wazero.NewFSConfig().WithReadOnlyDirMount("texts", "/texts").WithDirMount(t.TempDir(), "/local")))
	res := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		res.code = exit.ExitCode()
		return res
	}
	require.NoError(t, err)
	return res
}

func program(t *testing.T, name string) []byte {
	t.Helper()
	return guestbuild.Program(t, "guest-examples/programs/"+name)
}

func TestWordcountCountsAMountedText(t *testing.T) {
	got := run(t, program(t, "wordcount"), "-top", "2", "/texts/ferry.txt")
	require.Zero(t, got.code, got.stderr)
	require.JSONEq(t, `{"file": "/texts/ferry.txt", "lines": 9, "words": 118, "distinct": 60,
		"top": [{"word": "the", "count": 19}, {"word": "and", "count": 7}]}`, got.stdout)

	got = run(t, program(t, "wordcount"), "/texts/missing")
	require.Equal(t, uint32(1), got.code)
	require.Contains(t, got.stderr, "/texts/missing")
}

func TestColumnsComputesStatisticsInC(t *testing.T) {
	wasm := guestbuild.CProgram(t, "guest-examples/programs/columns")
	got := run(t, wasm, "/texts/rivers.csv")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "length_km             8        1233.00        6650.00        4428.75        1940.01\n")
	require.NotContains(t, got.stdout, "name")

	got = run(t, wasm, "/texts/ferry.txt")
	require.Equal(t, uint32(3), got.code)
	require.Contains(t, got.stderr, "line 3: not 2 cells")
	require.Equal(t, uint32(1), run(t, wasm, "/texts/missing").code)
	require.Equal(t, uint32(2), run(t, wasm).code)
}

func TestExitEndsWithItsCode(t *testing.T) {
	require.Equal(t, uint32(7), run(t, program(t, "exit"), "7").code)
	require.Equal(t, uint32(0), run(t, program(t, "exit")).code)
}

func TestEnvPrintsWhatItSees(t *testing.T) {
	require.JSONEq(t, `{"args": ["a", "b c"], "env": {"GREETING": "hello"}, "directories": ["/local"]}`,
		run(t, program(t, "env"), "a", "b c").stdout)
}

func TestFilesDoesItsStepsUntilOneFails(t *testing.T) {
	got := run(t, program(t, "files"), "mkdir:/local/d", "write:/local/d/f=text", "read:/local/d/f", "list:/local/d", "remove:/local/d", "read:/local/d/f", "write:/local/after=x")
	require.Equal(t, uint32(1), got.code)
	require.Equal(t, "text\nf\n", got.stdout)
	require.Contains(t, got.stderr, "files: read:/local/d/f:")
}

func TestPrintWritesLinesOfAKnownForm(t *testing.T) {
	got := run(t, program(t, "print"), "-n", "2", "-width", "8")
	require.Equal(t, "line 1..\nline 2..\n", got.stdout)
	require.Equal(t, "line 1\n", run(t, program(t, "print"), "-stderr").stderr)
}

func TestSleepPrintsWhenItIsReadyAndDone(t *testing.T) {
	require.Equal(t, "ready\ndone\n", run(t, program(t, "sleep"), "1ms").stdout)
	require.Equal(t, uint32(2), run(t, program(t, "sleep"), "long").code)
}
