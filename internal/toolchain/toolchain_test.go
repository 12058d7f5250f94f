package toolchain_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/toolchain"
)

// machine has programs, by their paths, each with what it prints for its arguments. A name is
// the last element of a path.
type machine map[string]map[string]string

func (m machine) asked() toolchain.Machine {
	return toolchain.Machine{
		LookPath: func(name string) (string, error) {
			for path := range m {
				if path == name || strings.HasSuffix(path, "/bin/"+name) && !strings.HasPrefix(path, "/hidden") {
					return path, nil
				}
			}
			return "", exec.ErrNotFound
		},
		Output: func(_ context.Context, path string, args ...string) (string, error) {
			if text, ok := m[path][strings.Join(args, " ")]; ok {
				return text, nil
			}
			return "", errors.New("exit status 1")
		},
		Exists: func(path string) bool { return path == "/lib/wasm32" },
	}
}

const (
	libdir  = "--print target-libdir --target wasm32-unknown-unknown"
	goNext  = "apt install golang-go, or where that is older than 1.24 from https://go.dev/dl/"
	linker  = "-print-prog-name=wasm-ld"
	nodejs  = "apt install nodejs npm, or where that is older than 20 from https://nodejs.org/en/download"
	zigNext = "install Zig 0.14 from https://ziglang.org/download/"
)

func TestAToolchainIsFoundOrWhatToTypeIsSaid(t *testing.T) {
	old := map[string]string{"--version": "rustc 1.56.1 (x)"}
	debian := map[string]string{"--version": "rustc 1.63.0 (x)", libdir: "/lib/wasm32\n"}
	rustup := map[string]string{"--version": "rustc 1.95.0 (x)", libdir: "/root/.rustup/lib\n"}
	clang := map[string]string{"--version": "Debian clang version 14.0.6", "--print-targets": "  wasm32 - WebAssembly 32-bit", linker: "/hidden/bin/wasm-ld\n"}
	for name, c := range map[string]struct {
		language   string
		machine    machine
		text, next string // without a next, it is well
	}{
		"no Go":               {"go", nil, "there is no Go", goNext},
		"Go":                  {"go", machine{"/usr/bin/go": {"env GOVERSION": "go1.24.0\n"}}, "/usr/bin/go, version 1.24.0", ""},
		"a development":       {"go", machine{"/usr/bin/go": {"env GOVERSION": "devel go1.27-abc\n"}}, "/usr/bin/go, version 1.27", ""},
		"an old Go":           {"go", machine{"/usr/bin/go": {"env GOVERSION": "go1.19.8\n"}}, "/usr/bin/go, version 1.19.8: it has to be 1.24 or newer", goNext},
		"a Go that may fetch": {"go", machine{"/usr/bin/go": {"env GOVERSION": "go1.21.0\n", "env GOTOOLCHAIN": "auto\n"}}, "/usr/bin/go, version 1.21.0, which downloads the one that a plugin needs", ""},
		"a Go that may not":   {"go", machine{"/usr/bin/go": {"env GOVERSION": "go1.23.4\n", "env GOTOOLCHAIN": "local\n"}}, "/usr/bin/go, version 1.23.4: it has to be 1.24 or newer, or may download one", "export GOTOOLCHAIN=auto"},
		"a broken Go":         {"go", machine{"/usr/bin/go": {}}, "/usr/bin/go does not work: exit status 1", goNext},
		"no version":          {"go", machine{"/usr/bin/go": {"env GOVERSION": "\n"}}, "/usr/bin/go does not tell its version", goNext},
		"no rustc":            {"rust", nil, "there is no rustc", "apt install rustc libstd-rust-dev-wasm32"},
		"an old rustc":        {"rust", machine{"/usr/bin/rustc": old}, "/usr/bin/rustc, version 1.56.1: it has to be 1.63 or newer", "apt install rustc libstd-rust-dev-wasm32"},
		"Debian's rustc":      {"rust", machine{"/usr/bin/rustc": debian}, "/usr/bin/rustc, version 1.63.0", ""},
		"without target":      {"rust", machine{"/root/bin/rustc": rustup}, "/root/bin/rustc, version 1.95.0, without the target wasm32-unknown-unknown", "rustup target add wasm32-unknown-unknown"},
		"no clang":            {"c", nil, "there is no clang", "apt install clang lld"},
		"clang":               {"c", machine{"/usr/bin/clang-14": clang, "/hidden/bin/wasm-ld": nil}, "/usr/bin/clang-14, version 14.0.6", ""},
		"no linker":           {"c", machine{"/usr/bin/clang-14": clang}, "/usr/bin/clang-14, version 14.0.6, but no wasm-ld, with which it links", "apt install lld-14"},
		"without wasm":        {"c", machine{"/usr/bin/clang": {"--version": "clang version 17.0.0", "--print-targets": "x86"}}, "/usr/bin/clang, version 17.0.0, which does not compile for WebAssembly", "apt install clang lld"},
		"another language":    {"cobol", nil, "no SDK for it: there are those for assemblyscript, c, go, rust, zig", ""},
		"no Node.js":          {"assemblyscript", nil, "there is no Node.js, which the compiler runs on", nodejs},
		"an old Node.js":      {"assemblyscript", machine{"/usr/bin/node": {"--version": "v18.20.4\n"}}, "/usr/bin/node, version 18.20.4: it has to be 20 or newer", nodejs},
		"a broken Node.js":    {"assemblyscript", machine{"/usr/bin/node": {}}, "/usr/bin/node does not work: exit status 1", nodejs},
		"no npm":              {"assemblyscript", machine{"/usr/bin/node": {"--version": "v20.20.2\n"}}, "/usr/bin/node, version 20.20.2, but no npm, which installs the compiler", "apt install npm"},
		"Node.js":             {"assemblyscript", machine{"/usr/bin/node": {"--version": "v20.20.2\n"}, "/usr/bin/npm": nil}, "/usr/bin/node, version 20.20.2", ""},
		"no zig":              {"zig", nil, "there is no zig", zigNext},
		"a zig":               {"zig", machine{"/usr/bin/zig": {"version": "0.14.1\n"}}, "/usr/bin/zig, version 0.14.1", ""},
		"a zig of npm's":      {"zig", machine{"/usr/bin/zig": {"version": "0.14.0-dev.2456+a68119f8f\n"}}, "/usr/bin/zig, version 0.14.0-dev.2456", ""},
		"a zig before it":     {"zig", machine{"/usr/bin/zig": {"version": "0.14.0-dev.999+a68119f8f\n"}}, "/usr/bin/zig, version 0.14.0-dev.999: it has to be 0.14.0-dev.2456 or newer", zigNext},
		"an old zig":          {"zig", machine{"/usr/bin/zig": {"version": "0.11.0\n"}}, "/usr/bin/zig, version 0.11.0: it has to be 0.14.0-dev.2456 or newer", zigNext},
		"a broken zig":        {"zig", machine{"/usr/bin/zig": {}}, "/usr/bin/zig does not work: exit status 1", zigNext},
	} {
		t.Run(name, func(t *testing.T) {
			f := toolchain.Check(t.Context(), c.machine.asked(), c.language)
			require.Equal(t, toolchain.Finding{Name: c.language, OK: c.next == "" && c.language != "cobol", Text: c.text, Next: c.next}, f)
		})
	}
	both := machine{"/root/bin/rustc": rustup, "/usr/bin/rustc": debian}.asked()
	look := both.LookPath
	both.LookPath = func(name string) (string, error) {
		if name == "rustc" {
			return "/root/bin/rustc", nil
		}
		return look(name)
	}
	require.Equal(t, "/usr/bin/rustc, version 1.63.0", toolchain.Check(t.Context(), both, "rust").Text, "one of several that has the target")
	require.Equal(t, toolchain.Finding{Name: "make", Text: "there is no make", Next: "apt install make"}, toolchain.Make(machine{}.asked()))
	require.True(t, toolchain.Make(machine{"/usr/bin/make": nil}.asked()).OK)
}
