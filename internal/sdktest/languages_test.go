package sdktest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// program is a program that was compiled for this machine.
type program string

// run starts it with an input and returns its output.
func (p program) run(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), string(p), args...)
	var errors bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &errors
	out, err := cmd.Output()
	require.NoError(t, err, errors.String())
	return out
}

// cFlags make every read or write beside a buffer the end of a program.
var cFlags = []string{"-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// builds counts programs, for their names.
var builds atomic.Int32

// compiled are the programs of this process of tests, by source file.
var compiled sync.Map

// compile returns the program that a source file makes.
func compile(t *testing.T, source string, command func(out string) *exec.Cmd) program {
	t.Helper()
	build, _ := compiled.LoadOrStore(source, sync.OnceValues(func() (program, error) {
		out := filepath.Join(programs, "lib"+strconv.Itoa(int(builds.Add(1)))+".rlib") // rustc takes no other name for a library
		text, err := command(out).CombinedOutput()
		if err != nil {
			return "", &buildError{text, err}
		}
		return program(out), nil
	}))
	p, err := build.(func() (program, error))()
	require.NoError(t, err)
	return p
}

type buildError struct {
	text []byte
	err  error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + string(e.text) }

func compileC(t *testing.T, source string) program {
	t.Helper()
	return compile(t, source, func(out string) *exec.Cmd {
		return exec.Command("cc", append(cFlags, "-o", out, source)...)
	})
}

// rustc is Debian's compiler where it is there: others may lack targets and warn otherwise.
func rustc() string {
	if _, err := os.Stat("/usr/bin/rustc"); err == nil {
		return "/usr/bin/rustc"
	}
	return "rustc"
}

var rustFlags = []string{"--edition", "2021", "-D", "warnings", "-C", "debug-assertions=on"}

// compileRust returns the program that a source file makes, with the crate of the SDK and,
// with "--test" among the flags, with its tests.
func compileRust(t *testing.T, source string, flags ...string) program {
	t.Helper()
	needRust(t)
	library := compile(t, "../../sdk/rust/src/lib.rs", func(out string) *exec.Cmd {
		return exec.Command(rustc(), append(rustFlags, "--crate-type", "rlib", "--crate-name", "wasmnode", "-o", out, "../../sdk/rust/src/lib.rs")...)
	})
	return compile(t, source+" "+strings.Join(flags, " "), func(out string) *exec.Cmd {
		return exec.Command(rustc(), slices.Concat(rustFlags, flags, []string{"--extern", "wasmnode=" + string(library), "-o", out, source})...)
	})
}

// needRust skips a test without a compiler, unless none may be missing.
func needRust(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(rustc()); err != nil {
		guestbuild.Missing(t, "no rustc: apt install rustc")
	}
}

// inEachLanguage runs a test with the program of each SDK that encodes again what it decodes.
func inEachLanguage(t *testing.T, test func(t *testing.T, echo program)) {
	t.Run("assemblyscript", func(t *testing.T) { test(t, echoInAssemblyScript(t)) })
	t.Run("c", func(t *testing.T) { test(t, compileC(t, "../../sdk/c/testdata/echo.c")) })
	t.Run("rust", func(t *testing.T) { test(t, compileRust(t, "../../sdk/rust/testdata/echo.rs")) })
	t.Run("zig", func(t *testing.T) { test(t, compileZig(t, "build-exe", "../../sdk/zig/testdata/echo.zig")) })
}

func TestTheCrateAndItsPluginsPassTheirTestsWithoutANode(t *testing.T) {
	for _, source := range []string{
		"../../sdk/rust/src/lib.rs", "../../guest-examples/drivers/rust-minimal/main.rs", "../../guest-examples/devices/rust-example/main.rs",
	} {
		tests := compileRust(t, source, "--test")
		require.Contains(t, string(tests.run(t, nil)), "test result: ok.")
	}
}

// TestTheExampleInRustsReadmeIsADriver has the README's driver pass the README's test.
func TestTheExampleInRustsReadmeIsADriver(t *testing.T) {
	text, err := os.ReadFile("../../sdk/rust/README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```rust\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 2)
	source := filepath.Join(t.TempDir(), "main.rs")
	code := blocks[0][1] + `
#[test]
fn of_the_readme() {
    let request = DriverStartTaskRequest { task: Some(TaskConfig { driver_config: b"{}".to_vec(), ..Default::default() }) };
` + blocks[1][1] + "}\n"
	require.NoError(t, os.WriteFile(source, []byte(code), 0o600))
	tests := compileRust(t, source, "--test")
	require.Contains(t, string(tests.run(t, nil)), "test result: ok. 1 passed")
}

func TestTheDevicePluginInCPassesItsTestsWithoutANode(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("123"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600))
	compileC(t, "../../sdk/c/testdata/devices.c").run(t, nil, dir)
}
