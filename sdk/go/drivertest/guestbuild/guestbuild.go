package guestbuild

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Flags of the Go toolchain for guests. -trimpath and -buildvcs=false make the
// bytes, and so the digest, the same on every machine.
var (
	goFlags     = []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"}
	pluginFlags = []string{"-buildmode=c-shared"}
)

// Flags of clang for guests. Compiling and linking are two steps on purpose: in
// one, clang runs a wasm-opt that it finds on the PATH, which may be too old for
// memory.copy. clang 14 crashes on wasi-libc's errno without the TLS model.
var (
	cCompileFlags = []string{"-mbulk-memory", "-ftls-model=local-exec", "-O2", "-Wall", "-Wextra", "-Werror"}
	cProgramFlags = []string{"--target=wasm32-wasi"}
	cPluginFlags  = []string{"--target=wasm32-unknown-unknown", "-ffreestanding", "-nostdlib"}
	cReactorLink  = []string{"-mexec-model=reactor", "-Wl,--strip-debug"}
)

// Plugin returns the Go package in dir compiled as a plugin: a WASI reactor.
func Plugin(t testing.TB, dir string) []byte {
	t.Helper()
	return once(t, "plugin", dir, func(root, dir, out string) error {
		return buildGo(root, dir, out, pluginFlags)
	})
}

// Program returns the Go package in dir compiled as a program: a WASI command.
func Program(t testing.TB, dir string) []byte {
	t.Helper()
	return once(t, "program", dir, func(root, dir, out string) error {
		return buildGo(root, dir, out, nil)
	})
}

// CPlugin returns the C files in dir compiled as a plugin that imports nothing but
// what it names, WASI neither. Without clang the test is skipped: see [Missing].
func CPlugin(t testing.TB, dir string) []byte {
	t.Helper()
	clang := needClang(t)
	return once(t, "c-plugin", dir, func(_, dir, out string) error {
		return buildC(clang, dir, out, cPluginFlags, []string{"-Wl,--no-entry", "-Wl,--strip-debug"})
	})
}

// CReactor returns the C files in dir compiled with wasi-libc as a plugin, which then reads files
// and the clock: a WASI reactor. Without clang the test is skipped: see [Missing].
func CReactor(t testing.TB, dir string) []byte {
	t.Helper()
	clang := needClang(t)
	return once(t, "c-reactor", dir, func(_, dir, out string) error {
		return buildC(clang, dir, out, cProgramFlags, cReactorLink)
	})
}

// CProgram returns the C files in dir compiled with wasi-libc as a program: a WASI
// command. Without clang the test is skipped: see [Missing].
func CProgram(t testing.TB, dir string) []byte {
	t.Helper()
	clang := needClang(t)
	return once(t, "c-program", dir, func(_, dir, out string) error {
		return buildC(clang, dir, out, cProgramFlags, []string{"-Wl,--strip-all"})
	})
}

type built struct {
	once sync.Once
	wasm []byte
	err  error
}

// builds holds a *built by kind and directory, so that parallel tests share one
// build and different guests are built side by side.
var builds sync.Map

func once(t testing.TB, kind, dir string, build func(root, dir, out string) error) []byte {
	t.Helper()
	root, absolute, err := locate(dir)
	if err != nil {
		t.Fatalf("guestbuild: %s: %v", dir, err)
	}
	v, _ := builds.LoadOrStore(kind+":"+absolute, new(built))
	b := v.(*built)
	b.once.Do(func() {
		b.wasm, b.err = cached(kind, absolute, func(out string) error { return build(root, absolute, out) })
	})
	if b.err != nil {
		t.Fatalf("guestbuild: %s: %v", dir, b.err)
	}
	// A copy: a test that spoils its module must not spoil another's.
	return slices.Clone(b.wasm)
}

// locate returns the root of the module that the test is in, and the directory that dir
// means there.
func locate(dir string) (root, absolute string, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	root = here
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(root)
		if parent == root {
			return "", "", errors.New("no go.mod above the working directory")
		}
		root = parent
	}
	switch {
	case filepath.IsAbs(dir):
		return root, filepath.Clean(dir), nil
	case strings.HasPrefix(dir, "."):
		return root, filepath.Join(here, dir), nil
	default:
		return root, filepath.Join(root, dir), nil
	}
}

// buildGo builds as the module at root does, whose requirements count when dir is in
// another one.
func buildGo(root, dir, out string, flags []string) error {
	pkg, err := filepath.Rel(root, dir)
	if err != nil {
		return err
	}
	args := slices.Concat(goFlags, flags, []string{"-o", out, "./" + filepath.ToSlash(pkg)})
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	return run(cmd)
}

func buildC(clang, dir, out string, target, link []string) error {
	sources, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no C files in %s", dir)
	}
	tmp, err := os.MkdirTemp("", "guestbuild")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var objects []string
	for _, source := range sources {
		object := filepath.Join(tmp, strings.TrimSuffix(filepath.Base(source), ".c")+".o")
		objects = append(objects, object)
		if err := run(exec.Command(clang, slices.Concat(target, cCompileFlags, []string{"-c", "-o", object, source})...)); err != nil {
			return err
		}
	}
	return run(exec.Command(clang, slices.Concat(target, link, []string{"-o", out}, objects)...))
}

func run(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

// needClang returns the clang to use: $CLANG, clang-14 (Debian's) or clang.
func needClang(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CLANG"), "clang-14", "clang"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const advice = "no clang: apt install clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32"
	Missing(t, advice)
	return ""
}
