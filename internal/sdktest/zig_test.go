package sdktest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

const zigModule = "../../sdk/zig/wasmnode.zig"

// compileZig returns the program that a source file makes, with the module of the SDK: itself
// with "build-exe", its tests with "test". Debug mode has all of Zig's checks.
func compileZig(t *testing.T, command, source string) program {
	t.Helper()
	needZig(t)
	return compile(t, command+" "+source, func(out string) *exec.Cmd {
		args := []string{command, "--dep", "wasmnode", "-Mroot=" + source, "-Mwasmnode=" + zigModule, "-femit-bin=" + out}
		if command == "test" {
			args = append(args, "--test-no-exec")
		}
		return exec.Command("zig", args...)
	})
}

// needZig skips a test without a compiler, unless none may be missing.
func needZig(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("zig"); err != nil {
		guestbuild.Missing(t, "no zig: make compilers, and its folder on the PATH")
	}
}

func TestTheModuleInZigAndItsPluginsPassTheirTestsWithoutANode(t *testing.T) {
	for source, count := range map[string]string{
		"../../sdk/zig/testdata/test.zig":                   "All 10 tests passed.",
		"../../guest-examples/drivers/zig-minimal/main.zig": "All 2 tests passed.",
		"../../guest-examples/devices/zig-example/main.zig": "All 2 tests passed.",
	} {
		said, err := exec.CommandContext(t.Context(), string(compileZig(t, "test", source))).CombinedOutput()
		require.NoError(t, err, string(said))
		require.Contains(t, string(said), count)
	}
}

func TestTheExampleOfTheREADMEInZigIsAPlugin(t *testing.T) {
	needZig(t)
	readme, err := os.ReadFile("../../sdk/zig/README.md")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(readme), "```zig\n")
	code, _, found := strings.Cut(code, "```\n")
	require.True(t, found)
	source := filepath.Join(t.TempDir(), "main.zig")
	require.NoError(t, os.WriteFile(source, []byte(code), 0o600))
	for _, target := range []string{"wasm32-freestanding", "wasm32-wasi"} {
		text, err := buildZig(source, "-target", target, "-fno-emit-bin")
		require.NoError(t, err, text)
	}
}

// buildZig compiles a plugin and returns what the compiler says.
func buildZig(source string, flags ...string) (string, error) {
	flags = append(flags, "-fno-entry", "-rdynamic", "--dep", "wasmnode", "-Mroot="+source, "-Mwasmnode="+zigModule)
	text, err := exec.Command("zig", append([]string{"build-exe"}, flags...)...).CombinedOutput()
	return string(text), err
}

func TestAStrippedPluginInZigIsTheSameInAnyFolder(t *testing.T) {
	needZig(t)
	code, err := os.ReadFile("../../guest-examples/drivers/zig-minimal/main.zig")
	require.NoError(t, err)
	var built [][]byte
	for range 2 {
		dir := t.TempDir()
		source, out := filepath.Join(dir, "main.zig"), filepath.Join(dir, "main.wasm")
		require.NoError(t, os.WriteFile(source, code, 0o600))
		text, err := buildZig(source, "-target", "wasm32-freestanding", "-O", "ReleaseSafe", "-fstrip", "-femit-bin="+out)
		require.NoError(t, err, text)
		wasm, err := os.ReadFile(out)
		require.NoError(t, err)
		built = append(built, wasm)
	}
	require.True(t, bytes.Equal(built[0], built[1]))
}

func TestAPluginInZigThatForgetsSomethingIsNotCompiled(t *testing.T) {
	needZig(t)
	const panic, plugin = "pub const panic = w.panic;\n", "const w = @import(\"wasmnode\");\ncomptime {\n    w.plugin(@This());\n}\n"
	for code, want := range map[string]string{
		plugin: "the node is not told why a plugin panics: add pub const panic = wasmnode.panic;",
		plugin + panic + "pub fn driverStrtTask() void {}\n":      "there is no operation driverStrtTask",
		plugin + panic + "fn driverDescribe() void {}\n":          "a plugin has pub fn driverDescribe, or deviceDescribe",
		plugin + panic + "pub fn driverDescribe(_: u8) void {}\n": "error: ",
	} {
		source := filepath.Join(t.TempDir(), "main.zig")
		require.NoError(t, os.WriteFile(source, []byte(code), 0o600))
		text, err := buildZig(source, "-target", "wasm32-freestanding", "-fno-emit-bin")
		require.Error(t, err)
		require.Contains(t, text, want)
	}
}

func TestTheFilesInZigAreFormatted(t *testing.T) {
	needZig(t)
	text, err := exec.Command("zig", "fmt", "--check", "../../sdk/zig", "../../guest-examples", "../../host/testdata", "../../sdk/templates").CombinedOutput()
	require.NoError(t, err, "zig fmt: %s", text)
}

// A function that no example calls would otherwise be compiled by authors only.
func TestTheModuleInZigImportsWhatTheHeaderInCDoes(t *testing.T) {
	needZig(t)
	out := filepath.Join(t.TempDir(), "all.wasm")
	text, err := buildZig("../../sdk/zig/testdata/all.zig", "-target", "wasm32-freestanding", "-O", "ReleaseSmall", "-femit-bin="+out)
	require.NoError(t, err, text)
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	r := wazero.NewRuntime(t.Context())
	defer func() { _ = r.Close(t.Context()) }()
	module, err := r.CompileModule(t.Context(), wasm)
	require.NoError(t, err)
	var imported, declared []string
	for _, f := range module.ImportedFunctions() {
		from, name, _ := f.Import()
		imported = append(imported, from+" "+name)
	}
	header, err := os.ReadFile("../../sdk/c/wasmnode.h")
	require.NoError(t, err)
	for _, f := range regexp.MustCompile(`WN_IMPORT\("([^"]+)", "([^"]+)"\)`).FindAllSubmatch(header, -1) {
		declared = append(declared, string(f[1])+" "+string(f[2]))
	}
	require.Greater(t, len(declared), 30)
	require.ElementsMatch(t, declared, imported)
}
