package drivertest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// Contract is what a plugin is checked with against the contract. Its zero value grants nothing
// and starts tasks without a configuration.
type Contract struct {
	// Task is what is in the config block of the tasks that are started, as in a job file.
	Task string
	// Grants are what the plugin may do, each as in the grant block of an agent's configuration.
	Grants []string
	// Config is the path of an agent's configuration, whose block for the plugin has what it is
	// granted and its own configuration; empty: there is none.
	Config string
	// Timeout bounds each call; 0: 5 seconds.
	Timeout time.Duration
}

// Conform has the program wasmnode check a compiled plugin, of any language, against the contract
// of all plugins, as plugin conform does, and returns the report. The test fails when a check
// does. What the plugin is granted is real: it may start processes, which are ended.
func Conform(t T, wasm []byte, c Contract) *conform.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin.wasm")
	if err := os.WriteFile(file, wasm, 0o600); err != nil {
		t.Fatalf("drivertest: %v", err)
	}
	program := find(t)
	cmd := exec.Command(program, append(c.arguments(), file)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run()
	report := &conform.Report{}
	if json.Unmarshal(out.Bytes(), report) != nil || (failed != nil && report.Count(conform.Fail) == 0) {
		t.Fatalf("drivertest: %s plugin conform: %v: %s", program, failed, strings.TrimPrefix(strings.TrimSpace(said.String()), "Error: "))
	}
	if n := report.Count(conform.Fail); n > 0 {
		t.Fatalf("drivertest: %d checks of the contract failed%s", n, failures(report))
	}
	return report
}

// arguments are those of the program but for the file.
func (c *Contract) arguments() []string {
	args := []string{"plugin", "conform", "-json"}
	if c.Task != "" {
		args = append(args, "-task", c.Task)
	}
	for _, grant := range c.Grants {
		args = append(args, "-grant", grant)
	}
	if c.Config != "" {
		args = append(args, "-config", c.Config)
	}
	if c.Timeout > 0 {
		args = append(args, "-timeout", c.Timeout.String())
	}
	return args
}

// failures are the checks that failed, a line each.
func failures(r *conform.Report) string {
	var text strings.Builder
	for _, check := range r.Checks {
		if check.Status == conform.Fail {
			text.WriteString("\n" + check.Name + ": " + check.Why)
		}
	}
	return text.String()
}
