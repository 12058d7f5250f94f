package guestbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const modulePath = "github.com/wasmnode/wasmnode"

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
)

// Plugin returns the Go package in dir, a path from the repository's root such as
// "guest-examples/drivers/wasi", compiled as a plugin: a WASI reactor.
func Plugin(t testing.TB, dir string) []byte {
	t.Helper()
	return once(t, "plugin", dir, func(root, out string) error {
		return buildGo(root, dir, out, pluginFlags)
	})
}

// Program returns the Go package in dir compiled as a program: a WASI command.
func Program(t testing.TB, dir string) []byte {
	t.Helper()
	return once(t, "program", dir, func(root, out string) error {
		return buildGo(root, dir, out, nil)
	})
}

// CPlugin returns the C files in dir compiled as a plugin that imports nothing but
// what it names, WASI neither. Without clang the test is skipped, unless CI=true.
func CPlugin(t testing.TB, dir string) []byte {
	t.Helper()
	clang := needClang(t)
	return once(t, "c-plugin", dir, func(root, out string) error {
		return buildC(clang, filepath.Join(root, dir), out, cPluginFlags, []string{"-Wl,--no-entry", "-Wl,--strip-all"})
	})
}

// CProgram returns the C files in dir compiled with wasi-libc as a program: a WASI
// command. Without clang the test is skipped, unless CI=true.
func CProgram(t testing.TB, dir string) []byte {
	t.Helper()
	clang := needClang(t)
	return once(t, "c-program", dir, func(root, out string) error {
		return buildC(clang, filepath.Join(root, dir), out, cProgramFlags, []string{"-Wl,--strip-all"})
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

func once(t testing.TB, kind, dir string, build func(root, out string) error) []byte {
	t.Helper()
	v, _ := builds.LoadOrStore(kind+":"+filepath.Clean(dir), new(built))
	b := v.(*built)
	b.once.Do(func() { b.wasm, b.err = buildLocked(kind, dir, build) })
	if b.err != nil {
		t.Fatalf("guestbuild: %s: %v", dir, b.err)
	}
	// A copy: a test that spoils its module must not spoil another's.
	return slices.Clone(b.wasm)
}

// buildLocked builds into the shared cache under a file lock: several test
// processes may want the same guest at once.
func buildLocked(kind, dir string, build func(root, out string) error) ([]byte, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(root, ".cache", "guests")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(runtime.Version() + " " + kind + " " + filepath.Clean(dir)))
	out := filepath.Join(cache, kind+"-"+filepath.Base(dir)+"-"+hex.EncodeToString(sum[:6])+".wasm")
	lock, err := os.OpenFile(out+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := build(root, out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module "+modulePath+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of %s above the working directory", modulePath)
		}
		dir = parent
	}
}

func buildGo(root, dir, out string, flags []string) error {
	args := slices.Concat(goFlags, flags, []string{"-o", out, "./" + filepath.ToSlash(filepath.Clean(dir))})
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
	if os.Getenv("CI") == "true" {
		t.Fatal(advice)
	}
	t.Skip(advice)
	return ""
}
