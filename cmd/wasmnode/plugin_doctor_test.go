package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
)

func TestADoctorSaysWhatToTypeNext(t *testing.T) {
	w := newWorkshop(t, "mock", "raw_exec")
	require.NoError(t, os.Rename(filepath.Join(w.dir, "mock.wasm"), filepath.Join(w.dir, "mock_driver.wasm")))
	write(t, filepath.Join(w.dir, "text.wasm"), "no plugin")
	configuration := write(t, filepath.Join(w.dir, "node.hcl"), "plugin \"mock_driver\" {\n  config { health = \"unhealthy\" }\n}\n")
	commands := `process { commands = ["/bin/true"] isolation = "none" }`
	const agent = `(?m)^warning +node +agent +none answers at http://127\.0\.0\.1:1: .*\n +-> wasmnode agent -dev -plugin-dir \.$`
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"mock_driver.wasm"}, 0, []string{`(?m)^ok +file +describe +mock_driver 0\.`, `(?m)^ok +file +fingerprint `, agent}},
		{[]string{"-config", configuration, "mock_driver.wasm"}, 1, []string{`(?m)^failed +file +fingerprint +it says that it cannot work here: .*\n +-> wasmnode plugin call mock_driver\.wasm fingerprint$`}},
		{[]string{"raw_exec.wasm"}, 1, []string{`(?m)^failed +file +configure +raw_exec\.wasm needs grant wasmnode:process/v1: .*\n +-> wasmnode plugin doctor -grant 'process \{ commands = \["/path/to/program"\] \}' raw_exec\.wasm$`}},
		{[]string{"-grant", commands, "raw_exec.wasm"}, 0, []string{`(?m)^ok +file +configure `}},
		{[]string{"text.wasm"}, 1, []string{`(?m)^failed +file +file +scan: offset 0x0: not a WebAssembly module.*\n +-> wasmnode plugin test DIR$`}},
		{[]string{"none.wasm"}, 1, []string{`(?m)^failed +file +file +open none\.wasm: no such file or directory$`}},
	} {
		r := w.run(t, "", append([]string{"plugin", "doctor", "-address", "http://127.0.0.1:1"}, c.args...)...)
		assert.Equal(t, c.code, r.code, "%v: %s%s", c.args, r.stdout, r.stderr)
		for _, want := range c.want {
			assert.Regexp(t, want, r.stdout)
		}
	}
	r := w.run(t, "", "plugin", "doctor", "-lang", "cobol")
	assert.Equal(t, result{1, "", "Error: -lang \"cobol\": there is an SDK for each of assemblyscript, c, go, rust, zig\n"}, r)
}

func TestADoctorNeedsACompilerWhereThereIsNoFile(t *testing.T) {
	programs := t.TempDir()
	d := examine(t, programs, "go")
	assert.Equal(t, 1, d.code)
	assert.Contains(t, d.findings, agent.Finding{Status: agent.FindingFailed, Part: "toolchain", Name: "go", Text: "there is no Go", Next: "apt install golang-go, or where that is older than 1.24 from https://go.dev/dl/"})
	assert.Contains(t, d.findings, agent.Finding{Status: agent.FindingWarning, Part: "toolchain", Name: "make", Text: "there is no make", Next: "apt install make"})
	require.NoError(t, os.WriteFile(filepath.Join(programs, "go"), []byte("#!/bin/sh\necho go1.24.2\n"), 0o700))
	for _, language := range []string{"", "go"} {
		d := examine(t, programs, language)
		assert.Zero(t, d.code)
		assert.Contains(t, d.findings, agent.Finding{Status: agent.FindingOK, Part: "toolchain", Name: "go", Text: filepath.Join(programs, "go") + ", version 1.24.2"})
		other := agent.Finding{Status: agent.FindingWarning, Part: "toolchain", Name: "c", Text: "there is no clang", Next: "apt install clang lld"}
		assert.Equal(t, language == "", slices.Contains(d.findings, other), "only what is asked for is looked for: %v", d.findings)
	}
	assert.Equal(t, 1, examine(t, programs, "c").code)
}

type examined struct {
	code     int
	findings []agent.Finding
}

// examine runs a doctor where there are no programs but those in a directory.
func examine(t *testing.T, programs, language string) examined {
	t.Helper()
	cmd := exec.Command(binary, "plugin", "doctor", "-json", "-address", "http://127.0.0.1:1", "-lang", language)
	cmd.Env = []string{"PATH=" + programs, "HOME=" + t.TempDir()}
	r := execute(t, cmd)
	var d agent.Findings
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &d), r.stderr)
	return examined{r.code, d.Findings}
}
