package docs

import (
	"bytes"
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

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

const root = ".."

// pages returns every Markdown file of the project, by its path from the root.
func pages(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	require.NoError(t, err, "listing the project's files")
	return strings.Fields(string(out))
}

var link = regexp.MustCompile(`\]\(([^)\s#]+)(?:#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(root, filepath.Dir(page), m[1])
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}

// hereDocument begins one in a command, with what ends it.
var hereDocument = regexp.MustCompile(`<<'?(\w+)'?$`)

// console returns the commands of a page's console blocks: the lines that begin
// with "$ ", the lines that continue one which ends in a backslash, and those of its here document.
func console(text string) []string {
	var commands []string
	inBlock, continues, until := false, false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = line == "```console"
		case !inBlock:
		case until != "":
			commands[len(commands)-1] += "\n" + line
			if line == until {
				until = ""
			}
		case continues:
			commands[len(commands)-1] += "\n" + line
			continues = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			commands = append(commands, strings.TrimPrefix(line, "$ "))
			continues = strings.HasSuffix(line, `\`)
			if begins := hereDocument.FindStringSubmatch(line); begins != nil {
				until = begins[1]
			}
		}
	}
	return commands
}

// TestCommandsWork runs each page's commands as one session, in a fresh copy of
// what a reader has: the repository, built.
func TestCommandsWork(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole sessions")
	}
	build := exec.Command("make", "-s", "build")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		if commands := console(string(text)); len(commands) > 0 {
			t.Run(page, func(t *testing.T) {
				out := runSession(t, commands)
				if page == "README.md" {
					checkRecording(t, out)
				}
			})
		}
	}
}

// awaitAgent waits until the agent that was started last answers, has loaded its plugins,
// and knows of the driver of the pages' jobs: it answers without plugins that take too
// long to be compiled. Of one that asks for a token no more is known than that it does.
const awaitAgent = `until bin/wasmnode node status >/dev/null 2>answer || grep -q 'Permission denied' answer; do kill -0 $! || exit 1; sleep 0.1; done
while bin/wasmnode plugin status 2>/dev/null | grep loading >/dev/null; do sleep 0.1; done
until bin/wasmnode node status -self 2>/dev/null | grep -E '^wasi +true +true ' >/dev/null || grep -q 'Permission denied' answer; do sleep 0.1; done
`

// awaitRegistry waits until a registry whose log is in registry.log listens.
const awaitRegistry = `until grep 'listening on' registry.log >/dev/null; do kill -0 $! || exit 1; sleep 0.1; done
`

// runSession runs the commands in one shell. Where a command leaves an agent or a
// registry in the background, the next one waits until that is there; it ends with the shell.
// It returns what they printed, each below its line, as if they had been run at home.
func runSession(t *testing.T, commands []string) string {
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n")
	for _, c := range commands {
		fmt.Fprintf(&script, "echo %s\n%s\n", quote("$ "+c), c)
		switch {
		case !strings.HasSuffix(c, "&"):
		case strings.HasPrefix(c, "docker-registry "):
			script.WriteString(awaitRegistry)
		default:
			script.WriteString(awaitAgent)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	work := t.TempDir()
	allocdirtest.Unmount(t, work)
	t.Cleanup(func() { endSupervisors(t, work) })
	// Copied, since tasks may not leave a granted directory through a link.
	require.NoError(t, os.CopyFS(filepath.Join(work, "bin"), os.DirFS(filepath.Join(root, "bin"))))
	for _, name := range []string{"guest-examples", "sdk", "abi", "go.mod", "go.sum", "go.work", "go.work.sum"} {
		target, err := filepath.Abs(filepath.Join(root, name))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(target, filepath.Join(work, name)))
	}
	if strings.Contains(script.String(), nextVersion) {
		buildNext(t, filepath.Join(work, nextVersion))
	}
	var out bytes.Buffer
	shell := exec.CommandContext(ctx, "bash", "-c", script.String())
	shell.Dir = work
	shell.Stdout, shell.Stderr = &out, &out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = 10 * time.Second
	require.NoError(t, shell.Start())
	exited := make(chan error, 1)
	go func() { exited <- shell.Wait() }()
	err := <-exited
	require.NoError(t, err, out.String())
	return strings.ReplaceAll(out.String(), work, "/home/me/wasmnode")
}

// endSupervisors ends what outlives the agents of a session by some seconds.
func endSupervisors(t *testing.T, work string) {
	homes, err := filepath.Glob(filepath.Join(work, "*", "supervisor"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the test is over
	defer cancel()
	for _, home := range homes { // one that is about to end itself does not answer
		require.Eventually(t, func() bool { return supervisor.End(ctx, home) == nil }, time.Minute, 10*time.Millisecond)
	}
}

// nextVersion is another build of the program, for a page that upgrades a node.
const nextVersion = "bin/next/wasmnode"

func buildNext(t *testing.T, path string) {
	t.Helper()
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/wasmnode/wasmnode/agent.Version=0.1.1", "-o", path, "./cmd/wasmnode")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
