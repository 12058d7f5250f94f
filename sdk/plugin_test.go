package sdk_test

import (
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/sdk"
)

// What is made is built, tested and checked in cmd/wasmnode, where there is a binary.

// each makes a plugin of every language and kind, and calls f with its folder and its files.
func each(t *testing.T, f func(t *testing.T, p sdk.Plugin, dir string, files []string)) {
	for _, language := range sdk.Languages() {
		for _, device := range []bool{false, true} {
			parent := t.TempDir()
			p := sdk.Plugin{Name: "My-plugin_2", Language: language, Device: device, Version: "1.2.3"}
			files, err := sdk.New(parent, p)
			require.NoError(t, err)
			f(t, p, filepath.Join(parent, p.Name), files)
		}
	}
}

func TestAFolderHasAllThatAPluginNeeds(t *testing.T) {
	each(t, func(t *testing.T, p sdk.Plugin, dir string, files []string) {
		for _, name := range []string{".gitignore", "Makefile", "README.md", "agent.hcl", "job.nomad.hcl"} {
			assert.Contains(t, files, name, "%+v", p)
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			assert.NotRegexp(t, `@[A-Z]+@`, string(text), "%+v: %s", p, name)
			if strings.HasSuffix(name, ".go") {
				formatted, err := format.Source(text)
				require.NoError(t, err)
				assert.Equal(t, string(formatted), string(text), name)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "job.nomad.hcl"))
		require.NoError(t, err)
		job, err := jobspec.Parse(jobspec.Options{Path: "job.nomad.hcl", Content: text})
		require.NoError(t, err)
		assert.Equal(t, p.Name, *job.ID)
	})
}

func TestNothingIsMadeOfWhatIsWrong(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(parent, "there"), 0o700))
	for name, want := range map[string]string{
		"": "is no name", "../x": "is no name", "a b": "is no name", "1st": "is no name", ".": "is no name", "ü": "is no name",
		strings.Repeat("a", 65): "at most 64", "there": "exists",
	} {
		_, err := sdk.New(parent, sdk.Plugin{Name: name, Language: "go"})
		require.ErrorContains(t, err, want, name)
	}
	_, err := sdk.New(parent, sdk.Plugin{Name: "a", Language: "cobol"})
	require.EqualError(t, err, `there is no template for "cobol": take one of assemblyscript, c, go, rust, zig`)
	_, err = sdk.New(filepath.Join(parent, "none"), sdk.Plugin{Name: "a", Language: "c"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1, "something is left")
}

// TestACopyOfTheSDKIsAllOfIt compares it with the files here.
func TestACopyOfTheSDKIsAllOfIt(t *testing.T) {
	for language, folders := range map[string]map[string]string{
		"assemblyscript": {"assemblyscript": "sdk/"},

		"c":    {"c": "sdk/"},
		"go":   {"go": "sdk/go/", "../abi": "sdk/abi/"},
		"rust": {"rust": "sdk/"},
		"zig":  {"zig": "sdk/"},
	} {
		parent := t.TempDir()
		_, err := sdk.New(parent, sdk.Plugin{Name: "a", Language: language})
		require.NoError(t, err)
		for from, to := range folders {
			require.NoError(t, filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if d.Name() == "testdata" || d.Name() == "descriptor" {
					return filepath.SkipDir
				}
				name, _ := filepath.Rel(from, file)
				switch filepath.Ext(name) {
				case ".go", ".h", ".rs", ".toml", ".mod", ".mjs", ".ts", ".zig":
					if !strings.HasSuffix(name, "_test.go") && name != "source.go" {
						assert.FileExists(t, filepath.Join(parent, "a", to, name))
					}
				}
				return nil
			}))
		}
	}
}
