// Package toolchain finds out whether a machine can build plugins, in each of the languages that
// have an SDK: which compilers are there, how old they are, and whether they compile for
// WebAssembly. What is missing is told with what to type next.
//
// It knows nothing of plugins. Start reading at [Check].
package toolchain

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
)

// Finding is what was found of one thing.
type Finding struct {
	Name string // such as "go"
	OK   bool
	Text string // what is there, or what is wrong with it, on a line
	Next string // what to type when it is not OK
}

// Machine is what is asked of the machine.
type Machine struct {
	// LookPath is where a program is.
	LookPath func(name string) (string, error)
	// Output is what a program prints on standard output.
	Output func(ctx context.Context, name string, args ...string) (string, error)
	// Exists reports whether there is something at a path.
	Exists func(path string) bool
}

// Here is this machine.
func Here() Machine {
	return Machine{
		LookPath: exec.LookPath,
		Output: func(ctx context.Context, name string, args ...string) (string, error) {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Dir = os.TempDir() // no file of a project decides which compiler it is
			out, err := cmd.Output()
			return string(out), err
		},
		Exists: func(path string) bool {
			_, err := os.Stat(path)
			return err == nil
		},
	}
}

// The least versions of what compiles plugins.
const (
	LeastGo   = "1.24"
	LeastNode = "20"
	LeastRust = "1.63"
	LeastLLVM = "14"
	LeastZig  = "0.14.0-dev.2456"
)

// target is what plugins in Rust are compiled for.
const target = "wasm32-unknown-unknown"

// checks look for what plugins in a language are built with.
var checks = map[string]func(context.Context, Machine) Finding{
	"assemblyscript": checkAssemblyScript, "c": checkC, "go": checkGo, "rust": checkRust, "zig": checkZig,
}

// Languages are those that Check knows, sorted.
func Languages() []string { return slices.Sorted(maps.Keys(checks)) }

// Check looks for what plugins in a language are built with. The context bounds the compilers
// that are asked for their versions.
func Check(ctx context.Context, m Machine, language string) Finding {
	check := checks[language]
	if check == nil {
		return Finding{Name: language, Text: "no SDK for it: there are those for " + strings.Join(Languages(), ", ")}
	}
	f := check(ctx, m)
	f.Name = language
	return f
}

// Make looks for make, which builds the folders that plugin new makes.
func Make(m Machine) Finding {
	path, err := m.LookPath("make")
	if err != nil {
		return Finding{Name: "make", Text: "there is no make", Next: "apt install make"}
	}
	return Finding{Name: "make", OK: true, Text: path}
}

var goVersion = regexp.MustCompile(`\bgo(\d+\.\d+(?:\.\d+)?)`)

func checkGo(ctx context.Context, m Machine) Finding {
	const next = "apt install golang-go, or where that is older than " + LeastGo + " from https://go.dev/dl/"
	path, err := m.LookPath("go")
	if err != nil {
		return Finding{Text: "there is no Go", Next: next}
	}
	text, err := m.Output(ctx, path, "env", "GOVERSION")
	if err != nil {
		return broken(path, err, next)
	}
	f := atLeast(path, text, goVersion, LeastGo, next)
	if f.OK || !atLeast(path, text, goVersion, fetchingGo, next).OK {
		return f
	}
	is := fmt.Sprintf("%s, version %s", path, goVersion.FindStringSubmatch(text)[1])
	switching, err := m.Output(ctx, path, "env", "GOTOOLCHAIN")
	if err == nil && strings.Contains(switching, "auto") {
		return Finding{OK: true, Text: is + ", which downloads the one that a plugin needs"}
	}
	return Finding{Text: is + ": it has to be " + LeastGo + " or newer, or may download one", Next: "export GOTOOLCHAIN=auto"}
}

// fetchingGo is the first Go that downloads the one that a module needs, where it is let.
const fetchingGo = "1.21"

var nodeVersion = regexp.MustCompile(`v(\d+\.\d+\.\d+)`)

// checkAssemblyScript looks for what the compiler runs on, and for what installs it into the
// folder of a plugin.
func checkAssemblyScript(ctx context.Context, m Machine) Finding {
	const next = "apt install nodejs npm, or where that is older than " + LeastNode + " from https://nodejs.org/en/download"
	path, err := m.LookPath("node")
	if err != nil {
		return Finding{Text: "there is no Node.js, which the compiler runs on", Next: next}
	}
	text, err := m.Output(ctx, path, "--version")
	if err != nil {
		return broken(path, err, next)
	}
	f := atLeast(path, text, nodeVersion, LeastNode, next)
	if !f.OK {
		return f
	}
	if _, err := m.LookPath("npm"); err != nil {
		return Finding{Text: f.Text + ", but no npm, which installs the compiler", Next: "apt install npm"}
	}
	return f
}

var llvmVersion = regexp.MustCompile(`version (\d+(?:\.\d+){0,2})`)

func checkC(ctx context.Context, m Machine) Finding {
	const next = "apt install clang lld"
	path := ""
	for _, name := range []string{"clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"} {
		if found, err := m.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return Finding{Text: "there is no clang", Next: next}
	}
	text, err := m.Output(ctx, path, "--version")
	if err != nil {
		return broken(path, err, next)
	}
	f := atLeast(path, text, llvmVersion, LeastLLVM, next)
	if !f.OK {
		return f
	}
	suffix := strings.TrimPrefix(filepath.Base(path), "clang")
	targets, err := m.Output(ctx, path, "--print-targets")
	if err != nil || !strings.Contains(targets, "wasm32") {
		return Finding{Text: f.Text + ", which does not compile for WebAssembly", Next: next}
	}
	linker, err := m.Output(ctx, path, "-print-prog-name=wasm-ld")
	if err == nil {
		_, err = m.LookPath(strings.TrimSpace(linker))
	}
	if err != nil {
		return Finding{Text: f.Text + ", but no wasm-ld, with which it links", Next: "apt install lld" + suffix}
	}
	return f
}

var rustVersion = regexp.MustCompile(`rustc (\d+\.\d+(?:\.\d+)?)`)

// checkRust looks for the first rustc that has the target: beside one of rustup's may be the
// distribution's.
func checkRust(ctx context.Context, m Machine) Finding {
	const install = "apt install rustc libstd-rust-dev-wasm32"
	without := Finding{Text: "there is no rustc", Next: install}
	for _, name := range []string{"rustc", "/usr/bin/rustc"} {
		path, err := m.LookPath(name)
		if err != nil {
			continue
		}
		text, err := m.Output(ctx, path, "--version")
		if err != nil {
			without = broken(path, err, install)
			continue
		}
		f := atLeast(path, text, rustVersion, LeastRust, install)
		if !f.OK {
			without = f
			continue
		}
		dir, err := m.Output(ctx, path, "--print", "target-libdir", "--target", target)
		if err == nil && m.Exists(strings.TrimSpace(dir)) {
			return f
		}
		without = Finding{Text: f.Text + ", without the target " + target, Next: install}
		if strings.Contains(dir, "rustup") {
			without.Next = "rustup target add " + target
		}
	}
	return without
}

var zigVersion = regexp.MustCompile(`^(\d+\.\d+\.\d+(?:-dev\.\d+)?)`)

func checkZig(ctx context.Context, m Machine) Finding {
	const next = "install Zig 0.14 from https://ziglang.org/download/"
	path, err := m.LookPath("zig")
	if err != nil {
		return Finding{Text: "there is no zig", Next: next}
	}
	text, err := m.Output(ctx, path, "version")
	if err != nil {
		return broken(path, err, next)
	}
	return atLeast(path, text, zigVersion, LeastZig, next)
}

// broken is a program that is there and does not work.
func broken(path string, err error, next string) Finding {
	return Finding{Text: fmt.Sprintf("%s does not work: %v", path, err), Next: next}
}

// atLeast compares the version that a program tells with the least one that will do.
func atLeast(path, text string, pattern *regexp.Regexp, least, next string) Finding {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return Finding{Text: path + " does not tell its version", Next: next}
	}
	text = fmt.Sprintf("%s, version %s", path, found[1])
	is, err := version.NewVersion(found[1])
	if err != nil || is.LessThan(version.Must(version.NewVersion(least))) {
		return Finding{Text: text + ": it has to be " + least + " or newer", Next: next}
	}
	return Finding{OK: true, Text: text}
}
