// Package sdk makes the folder of a new plugin, outside of this repository: a driver or a device
// plugin that builds, is tested and runs as it is, with a copy of the SDK, so that it needs the
// toolchain of its language and nothing else. What is in the folders is in templates; tests
// build and try what is made of them.
//
// It knows nothing of nodes. Start reading at [New].
package sdk

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	sdkgo "github.com/wasmnode/wasmnode/sdk/go"
)

//go:embed templates
var templates embed.FS

// Plugin is what is to be made.
type Plugin struct {
	Name     string // as of [abi.ValidName]; also the folder's
	Language string // one of [Languages]
	Device   bool   // a device plugin; else a driver
	Version  string // of the wasmnode that makes it
}

// language is what the folders for a language differ in, but for their files, and what its SDK is
// made of.
type language struct {
	main, test string
	sdk        []part
	needs      string
}

var languages = map[string]language{
	"assemblyscript": {"main.ts", "test.ts", []part{{source, "assemblyscript", "."}},
		"Node.js 20 or newer with npm, and make (Debian 13: `apt install make nodejs npm`). npm downloads the compiler" +
			" into `node_modules` when it is first built, 102 MB, in the version that `package-lock.json` pins"},
	"c": {"main.c", "test.c", []part{{source, "c", "."}},
		"clang and lld, and a C compiler for its tests (Debian: `apt install make clang lld gcc libc6-dev`)"},
	"go": {"main.go", "main_test.go", []part{{sdkgo.Source, ".", "go"}, {abi.Source, ".", "abi"}},
		"Go 1.24 or newer, and make. Its tests stand on two public modules, which Go downloads when they first run;" +
			" the plugin on none"},
	"rust": {"main.rs", "main.rs", []part{{source, "rust", "."}},
		"rustc 1.63 or newer with the target wasm32-unknown-unknown, and make (Debian: `apt install make rustc" +
			" libstd-rust-dev-wasm32`; rustup: `rustup target add wasm32-unknown-unknown`)"},
	"zig": {"main.zig", "main.zig", []part{{source, "zig", "."}},
		"Zig 0.14 from https://ziglang.org/download/, and make"},
}

// Languages are those that a plugin can be made in.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

// New makes the folder of a plugin, called as it is, in the folder parent, and returns the paths
// of what is in it, from the folder on, without the copy of the SDK. After an error nothing of it is left.
//
// # Errors
//
// A name or a language that there is not; [fs.ErrExist]: something of that name is there; what
// the file system refuses.
func New(parent string, p Plugin) ([]string, error) {
	if !abi.ValidName(p.Name) {
		return nil, fmt.Errorf("%q is no name for a plugin: take a letter, then letters, digits, '_' or '-', at most %d in all", p.Name, abi.MaxName)
	}
	files, err := render(p)
	if err != nil {
		return nil, err
	}
	listed := slices.Sorted(maps.Keys(files))
	copied, err := sources(p.Language)
	if err != nil {
		return nil, err
	}
	for name, text := range copied {
		files[path.Join("sdk", name)] = text
	}
	return listed, place(filepath.Join(parent, p.Name), files)
}

// render returns the files of a plugin's folder, by their slashed paths, without the SDK.
func render(p Plugin) (map[string][]byte, error) {
	l, known := languages[p.Language]
	if !known {
		return nil, fmt.Errorf("there is no template for %q: take one of %s", p.Language, strings.Join(Languages(), ", "))
	}
	kind, schema, task := "driver", "task_schema", ` -task "$$(cat task.hcl)"`
	row := "| `task_schema.json` | what the `config` block of a task may hold |\n"
	if p.Device {
		kind, schema, task = "device", "plugin_schema", ""
		row = "| `plugin_schema.json` | what the plugin's configuration may hold |\n"
	}
	if p.Language == "go" { // its schema is made of a struct
		row = ""
	}
	requires, sum, err := goModule()
	if err != nil {
		return nil, err
	}
	words := strings.NewReplacer(
		"@NAME@", p.Name, "@VERSION@", p.Version, "@MAIN@", l.main, "@TEST@", l.test, "@NEEDS@", l.needs,
		"@SCHEMA@", schema, "@SCHEMA_ROW@", row, "@TASK@", task, "@REQUIRE@", requires,
	)
	files := map[string][]byte{}
	for _, folder := range []string{kind, p.Language, p.Language + "-" + kind} {
		entries, err := templates.ReadDir(path.Join("templates", folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			text, err := templates.ReadFile(path.Join("templates", folder, e.Name()))
			if err != nil {
				return nil, err
			}
			files[nameOf(e.Name())] = []byte(words.Replace(string(text)))
		}
	}
	if p.Language == "go" {
		files["go.sum"] = sum
		delete(files, schema+".json")
	}
	return files, nil
}

// nameOf is the name of a template's file: those that would mean something here have another.
func nameOf(template string) string {
	if template == "gitignore" {
		return ".gitignore"
	}
	return strings.TrimSuffix(template, ".tmpl")
}

// place makes a folder with files, whole or not at all.
func place(dir string, files map[string][]byte) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w: take another name, or remove it", dir, fs.ErrExist)
	}
	beside, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(beside))
		}
	}()
	if err := os.Chmod(beside, 0o755); err != nil { //nolint:gosec // a folder of sources, as others are
		return err
	}
	for name, text := range files {
		file := filepath.Join(beside, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // likewise
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // likewise
			return err
		}
	}
	return os.Rename(beside, dir)
}
