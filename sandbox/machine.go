package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/cpu"
)

// enginePath is the module of the engine that compiles.
const enginePath = "github.com/tetratelabs/wazero"

// compiledFor names what compiled code is for beside its module: the engine's version, and the
// processor with all that it can do. One cache may serve several of both.
var compiledFor = sync.OnceValue(func() string {
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == enginePath {
				version = dep.Version
			}
		}
	}
	return fmt.Sprintln(version, runtime.GOOS, runtime.GOARCH, cpu.X86, cpu.ARM64)
})

// codeDigest is what a module's compiled code is kept by.
func codeDigest(wasm []byte) string {
	sum := sha256.New()
	_, _ = sum.Write([]byte(compiledFor())) // a hash takes all
	_, _ = sum.Write(wasm)
	return hex.EncodeToString(sum.Sum(nil))
}
