package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk"
)

const (
	// authorsEnv has the tutorial done in all languages, not in the one whose compiler is fast.
	authorsEnv = "WASMNODE_AUTHORS"
	// transcriptsEnv names a directory for what an author types and sees, with the times.
	transcriptsEnv = "WASMNODE_TRANSCRIPTS"
)

// The tutorial is about a driver in Go. testsOf are the files that have the tests of one in each language.
var testsOf = map[string]string{"assemblyscript": "test.ts", "c": "test.c", "go": "main_test.go", "rust": "main.rs", "zig": "main.zig"}

const (
	// fiveMinutes of processors are for everything until the edited driver's output: what else a
	// machine does meanwhile does not count.
	fiveMinutes = 5 * time.Minute
	// authorsPatience is for each command, on a machine that does much else.
	authorsPatience = 20 * time.Minute
)

// What plugin dev shows of the tutorial's job: first, and once the driver was edited.
var (
	firstOutput  = regexp.MustCompile(`(?m)^\S+ hello \|  Hello, world, from hello$`)
	editedOutput = regexp.MustCompile(`(?m)^\S+ hello \|  \+ echo .*$`)
)

// TestAnAuthorsFirstFiveMinutes types what docs/your-first-driver.md says, from an empty
// directory to the output of an edited driver: at most ten commands, and five
// minutes of a machine that does nothing else.
func TestAnAuthorsFirstFiveMinutes(t *testing.T) {
	languages := []string{"c"}
	if os.Getenv(authorsEnv) != "" {
		languages = sdk.Languages()
	}
	for _, language := range languages {
		t.Run(language, func(t *testing.T) {
			a := newAuthor(t, language)
			if os.Getenv("CI") != "true" && !a.hasCompiler(t) {
				t.Skip("there is no toolchain for", language)
			}
			began := time.Now()
			commands := a.tutorial(t)
			for _, command := range commands {
				a.types(t, command)
			}
			require.NotZero(t, a.edited, "the tutorial has no edit whose output is seen")
			assert.LessOrEqual(t, len(commands), 10)
			assert.Less(t, a.untilEdited, fiveMinutes)
			a.says("%s: %d commands, the edited driver's output after %.1fs, of which processors worked for %.1fs; all in %.1fs, %.1fs",
				language, len(commands), a.edited.Sub(began).Seconds(), a.untilEdited.Seconds(), time.Since(began).Seconds(), a.busy.Seconds())
			a.publish(t)
		})
	}
}

// author is somebody with a compiler, wasmnode on the PATH, and an empty directory.
type author struct {
	language, dir string
	env           []string
	dev           *node         // plugin dev, while it runs
	edited        time.Time     // when the edited driver's output was seen
	busy          time.Duration // of processors, for all commands
	untilEdited   time.Duration // of that, until then
	transcript    strings.Builder
}

func newAuthor(t *testing.T, language string) *author {
	t.Helper()
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	bin, cache := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "wasmnode")))
	return &author{language: language, dir: t.TempDir(), env: append(os.Environ(),
		"PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+cache,
		"GOCACHE="+strings.TrimSpace(string(goCache)), "GOFLAGS=-trimpath")}
}

// hasCompiler makes another plugin of the language, whose Makefile knows.
func (a *author) hasCompiler(t *testing.T) bool {
	t.Helper()
	w := newWorkshop(t)
	require.Zero(t, w.run(t, "", "plugin", "new", "-lang", a.language, "other").code)
	return w.make(t, "other", "toolchain")
}

// tutorial returns the commands of the page, for the author's language.
func (a *author) tutorial(t *testing.T) (commands []string) {
	t.Helper()
	page := read(t, filepath.Join("..", "..", "docs", "your-first-driver.md"))
	words := strings.NewReplacer("-lang go", "-lang "+a.language, "main_test.go", testsOf[a.language], "main.go", sources[a.language])
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(page, -1) {
		commands = append(commands, strings.Split(strings.TrimSpace(words.Replace(block[1])), "\n")...)
	}
	return commands
}

// types does a command, and waits for what the author is to see. plugin dev is left to run until
// the edit after it has been seen.
func (a *author) types(t *testing.T, command string) {
	t.Helper()
	began := time.Now()
	if words := strings.Fields(command); strings.HasPrefix(command, "wasmnode plugin dev ") {
		cmd := exec.Command(binary, words[1:]...)
		cmd.Dir, cmd.Env = a.dir, a.env
		a.dev = launchProcess(t, cmd)
		a.dev.log.awaitFor(t, authorsPatience, firstOutput, a.dev.exited)
		a.says("$ %s\n(its output is below; the first of the job came after %.1fs)\n", command, time.Since(began).Seconds())
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), authorsPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = a.dir, a.env
	out, err := cmd.CombinedOutput()
	a.worked(cmd)
	a.says("$ %s\n%s(%.1fs)\n", command, out, time.Since(began).Seconds())
	require.Equal(t, strings.Contains(command, "# it fails"), err != nil, "%s: %v\n%s", command, err, out)
	if a.dev == nil {
		return
	}
	a.dev.log.awaitFor(t, authorsPatience, editedOutput, a.dev.exited)
	a.edited = time.Now()
	a.says("(the edited driver's output came after %.1fs; plugin dev, interrupted now, has shown:)\n", time.Since(began).Seconds())
	assert.Zero(t, a.dev.signal(t, syscall.SIGINT))
	a.worked(a.dev.cmd)
	a.untilEdited = a.busy
	a.says("%s", a.dev.log)
	a.dev = nil
}

// worked counts what processors did for a command, and for all that it started.
func (a *author) worked(cmd *exec.Cmd) {
	a.busy += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

func (a *author) says(format string, args ...any) { fmt.Fprintf(&a.transcript, format+"\n", args...) }

// publish leaves the transcript where it was asked for.
func (a *author) publish(t *testing.T) {
	t.Helper()
	if dir := os.Getenv(transcriptsEnv); dir != "" {
		write(t, filepath.Join(dir, a.language+".txt"), a.transcript.String())
	}
}
