package main

import (
	"encoding/json"
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
)

// devFolder is a plugin's folder whose build copies the mock driver.
func devFolder(t *testing.T, w workshop) string {
	t.Helper()
	folder := filepath.Join(w.dir, "mine")
	require.NoError(t, os.Mkdir(folder, 0o700))
	write(t, filepath.Join(folder, "Makefile"), ".PHONY: build\nbuild:\n\t@mkdir -p build plugins && cp ../mock.wasm build/ && mv build/mock.wasm plugins/mock_driver.wasm\n")
	write(t, filepath.Join(folder, "agent.hcl"), "plugin \"mock_driver\" {}\n")
	devJob(t, folder, `stdout_string = "first\n"`)
	return folder
}

// devJob writes the folder's job.
func devJob(t *testing.T, folder, config string) {
	t.Helper()
	write(t, filepath.Join(folder, "job.nomad.hcl"), fmt.Sprintf(`job "mine" {
  group "g" {
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
        %s
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
`, config))
}

func TestAPluginIsBuiltAndItsJobRunOnEachChange(t *testing.T) {
	w := newWorkshop(t, "mock")
	folder, temporary := devFolder(t, w), t.TempDir()
	cmd := exec.Command(binary, "plugin", "dev", "mine")
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.dir, "TMPDIR="+temporary)
	dev := launchProcess(t, cmd)
	wait := func(pattern string) { dev.log.await(t, regexp.MustCompile(pattern), dev.exited) }

	wait(`(?m)^\S+ plugin  mock_driver \S+ is healthy`)
	wait(`(?m)^\S+ t  Started: Task started by client$`)
	wait(`(?m)^\S+ t \|  first$`)

	devJob(t, folder, `stdout_string = "second\n"`)
	wait(`(?m)^\S+ t \|  second$`)

	// Another plugin: the same with a custom section at its end.
	other := append(driver(t, "mock"), "\x00\x02\x01x"...)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "mock.wasm"), other, 0o600))
	write(t, filepath.Join(folder, "main.c"), "")
	wait(`(?s)( build  mine/plugins/mock_driver\.wasm, in .*){2} plugin  mock_driver \S+ is healthy.* t \|  second\n`)

	devJob(t, folder, `start_fault = "trap"`)
	wait(`(?m)^\S+ t  Driver Failure: plugin mock_driver .*driver_start_task.*$`)

	devJob(t, folder, `stdout_strung = "third"`)
	wait(`(?m)^\S+ t  Failed Validation: .*stdout_strung.*$`)

	write(t, filepath.Join(folder, "job.nomad.hcl"), "job {")
	wait(`(?m)^\S+ dev  .*job\.nomad\.hcl:1,.*$`)

	write(t, filepath.Join(folder, "Makefile"), ".PHONY: build\nbuild:\n\t@false\n")
	wait(`(?m)^\S+ build  make build failed in mine: see above\. .*(apt install|wasmnode plugin doctor -lang c).*$`)

	assert.Zero(t, dev.signal(t, syscall.SIGINT))
	assert.Empty(t, names(t, temporary), "something is left")
	assert.Equal(t, 1, strings.Count(dev.log.String(), "its API is at"))
}

func TestAPluginIsWorkedOnWithANodeThatRuns(t *testing.T) {
	w, s := newWorkshop(t, "mock"), newSite(t)
	folder, n := devFolder(t, w), s.start(t)
	makefile := filepath.Join(folder, "Makefile")
	write(t, makefile, read(t, makefile)+"\t@printf 'made\\033 it'\n")
	cmd := exec.Command(binary, "plugin", "dev", "-json", "-address", "http://"+n.address, "-plugin-dir", s.plugins, folder)
	dev := launchProcess(t, cmd)
	dev.log.await(t, regexp.MustCompile(`"From":"t \|","Text":"first"`), dev.exited)
	assert.Contains(t, n.out(t, "job", "status"), "mine")
	assert.Zero(t, dev.signal(t, syscall.SIGTERM))
	assert.NotContains(t, n.out(t, "job", "status"), "mine")
	heard := map[string]string{}
	for line := range strings.Lines(dev.log.String()) {
		var is said
		require.NoError(t, json.Unmarshal([]byte(line), &is), line)
		assert.WithinDuration(t, time.Now(), is.Time, time.Hour)
		heard[is.From] += is.Text
	}
	assert.Equal(t, "made\x1b it", heard["make"])
	assert.Regexp(t, "^mock_driver .* is healthy", heard["plugin"])
	assert.Equal(t, []string{"mock_driver.wasm"}, names(t, s.plugins))
}

func TestAFolderThatCannotBeWorkedOnSaysWhy(t *testing.T) {
	w := newWorkshop(t, "mock")
	wants(t, w.run(t, "", "plugin", "dev", "."), 1, `\. has no Makefile: wasmnode plugin new makes a folder with one`)
	folder := devFolder(t, w)
	wants(t, w.run(t, "", "plugin", "dev", "-job", "none/x.hcl", "mine"), 1, `none: no such file or directory`)
	wants(t, w.run(t, "", "plugin", "dev", "-plugin-dir", ".", "mine"), 1, `-address and -plugin-dir are the two parts of a node that runs: both of them, or none .*`)
	wants(t, w.run(t, "", "plugin", "dev", "-address", "127.0.0.1:1", "-plugin-dir", ".", "mine"), 1, `cannot reach the node at 127\.0\.0\.1:1: .*`)
	write(t, filepath.Join(folder, "agent.hcl"), "plugin {\n")
	wants(t, w.run(t, "", "plugin", "dev", "mine"), 1, `configuration: mine/agent\.hcl:1,.*`)
}
