package sdk

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed assemblyscript/*.ts assemblyscript/test.mjs
//go:embed c/wasmnode.h c/wasmnode_test.h rust/Cargo.toml rust/src
//go:embed zig/files.zig zig/host.zig zig/testing.zig zig/wasmnode.zig zig/wire.zig
var source embed.FS

// part is a folder of an SDK, and where it is in a copy.
type part struct {
	files fs.FS
	root  string // in files
	to    string
}

// sources returns the files of the SDK for a language, by their slashed paths. That for Go has
// the two modules go and abi, without their tests.
func sources(language string) (map[string][]byte, error) {
	copied := map[string][]byte{}
	for _, p := range languages[language].sdk {
		err := fs.WalkDir(p.files, p.root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(p.files, name)
			copied[path.Join(p.to, strings.TrimPrefix(name, p.root+"/"))] = text
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return copied, nil
}
