package agent

import (
	"runtime"
	"runtime/debug"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/state"
)

// Version is the semantic version of this build; the linker sets it.
var Version = "0.1.0-dev"

// Commit is the one that this build was made of, with "-dirty" behind it where files were
// changed; the linker sets it. Empty: it is not known.
var Commit = ""

// Build is what this program is made of, and which data it reads.
type Build struct {
	Version  string
	Commit   string // empty: not known
	Go       string
	Platform string // such as "linux/amd64"
	Wazero   string // empty: not known
	ABI      string // of the contract with plugins
	// The newest schemas of the files in a data directory that it reads and writes.
	ClientSchema, ServerSchema int
}

// ThisBuild is that of the program that runs.
func ThisBuild() Build {
	b := Build{
		Version: Version, Commit: Commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		ABI: abi.Version, ClientSchema: state.SchemaVersion, ServerSchema: standalone.SchemaVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/tetratelabs/wazero" {
			b.Wazero = m.Version
		}
	}
	if b.Commit == "" {
		b.Commit = committed(info.Settings)
	}
	return b
}

// committed is the commit that Go itself stamped a program with.
func committed(settings []debug.BuildSetting) string {
	var commit, mark string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			mark = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + mark
}
