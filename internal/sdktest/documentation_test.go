package sdktest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// public are the declarations of an SDK that an author sees, and the last line of a comment before one.
// What is declared again, and what only brings in another file's, is documented there. Go's are
// looked at by the linter, and Rust's by the compiler.
var public = []struct {
	files    []string
	declared *regexp.Regexp
	comment  *regexp.Regexp
	inside   string // what only the SDK's own functions take or return
}{
	{
		[]string{"c/wasmnode.h", "c/wasmnode_test.h"},
		regexp.MustCompile(`(?m)^(?:WN_FUNCTION [^\n]*\{[^\n]*|typedef struct [^\n]*|#define WN_[A-Z]+\([^\n]* \\)$`),
		regexp.MustCompile(`\*/$`),
		`wn_(reader|writer|field)\b`,
	},
	{
		[]string{"zig/wasmnode.zig", "zig/files.zig", "zig/host.zig", "zig/testing.zig", "zig/wire.zig"},
		regexp.MustCompile(`(?m)^pub (?:inline )?(?:fn [^\n]*|const \w+ = (?:struct|enum|union)[^\n]*)$`),
		regexp.MustCompile(`^///`),
		`^$`,
	},
	{
		[]string{"assemblyscript/[a-su-z]*.ts", "assemblyscript/test.ts"}, // not what the node calls in tests
		regexp.MustCompile(`(?m)^export (?:function|class|abstract class|const|enum) [^\n]*$`),
		regexp.MustCompile(`\*/$`),
		`^$`,
	},
}

// TestWhatAnAuthorSeesOfAnSDKHasAComment looks at the languages that have nothing which does.
func TestWhatAnAuthorSeesOfAnSDKHasAComment(t *testing.T) {
	for _, p := range public {
		found, inside := 0, regexp.MustCompile(p.inside)
		for _, pattern := range p.files {
			files, err := filepath.Glob("../../sdk/" + pattern)
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, at := range p.declared.FindAllIndex(text, -1) {
					if inside.Match(text[at[0]:at[1]]) {
						continue
					}
					found++
					assert.True(t, p.comment.Match(lineBefore(text, at[0])), "%s: %s has no comment", file, text[at[0]:at[1]])
				}
			}
		}
		assert.Greater(t, found, 50, "%s", p.files)
	}
}

// lineBefore returns the line that ends where another begins.
func lineBefore(text []byte, begin int) []byte {
	lines := bytes.Split(bytes.TrimSuffix(text[max(0, begin-1000):begin], []byte("\n")), []byte("\n"))
	return lines[len(lines)-1]
}

// TestTheDocumentationOfTheCrateIsBuilt fails where something public has none, and where a link leads nowhere.
func TestTheDocumentationOfTheCrateIsBuilt(t *testing.T) {
	needRust(t)
	out := t.TempDir()
	text, err := exec.Command(filepath.Join(filepath.Dir(rustc()), "rustdoc"), "--edition", "2021", "--crate-name", "wasmnode",
		"-D", "warnings", "-o", out, "../../sdk/rust/src/lib.rs").CombinedOutput()
	require.NoError(t, err, string(text))
	require.FileExists(t, filepath.Join(out, "wasmnode", "struct.TaskConfig.html"))
}

func TestTheDocumentationOfTheModuleInZigIsBuilt(t *testing.T) {
	needZig(t)
	out := t.TempDir()
	text, err := exec.Command("zig", "build-lib", "-fno-emit-bin", "-femit-docs="+out, "--cache-dir", t.TempDir(), zigModule).CombinedOutput()
	require.NoError(t, err, string(text))
	require.FileExists(t, filepath.Join(out, "index.html"))
}

// TestTheCommentsOfTheHeadersAreWellFormed has clang read them as documentation.
func TestTheCommentsOfTheHeadersAreWellFormed(t *testing.T) {
	clang, err := exec.LookPath("clang-14")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("no clang: make toolchain")
	}
	require.NoError(t, err)
	for _, header := range []string{"wasmnode.h", "wasmnode_test.h"} {
		cmd := exec.Command(clang, "-std=c11", "-fsyntax-only", "-Wdocumentation", "-Wdocumentation-pedantic", "-fparse-all-comments", "-Werror", "-x", "c", "-")
		cmd.Dir = "../../sdk/c"
		cmd.Stdin = strings.NewReader("#include \"wasmnode.h\"\n#include \"" + header + "\"\n")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, string(text))
	}
}
