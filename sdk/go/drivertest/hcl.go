package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// Program is the environment variable with the path of the program wasmnode, which reads HCL for
// a test, and checks plugins; without it the one on PATH does.
const Program = "WASMNODE"

// find returns the path of the program. The test fails when there is none.
func find(t T) string {
	t.Helper()
	if program := os.Getenv(Program); program != "" {
		return program
	}
	program, err := exec.LookPath("wasmnode")
	if err != nil {
		t.Fatalf("drivertest: the program wasmnode is not on PATH: install it, or set %s to its path", Program)
	}
	return program
}

// TaskHCL is [Node.Task] with what is in the config block as a job file has it: the program
// wasmnode reads it, checks it and fills in defaults, as on a node.
func (n *Node) TaskHCL(config string) *driver.TaskConfig {
	n.t.Helper()
	task, err := n.TryTaskHCL(config)
	if err != nil {
		n.t.Fatalf("drivertest: %v", err)
	}
	return task
}

// TryTaskHCL is [Node.TaskHCL] for tests of the schema: it returns the refusal, in the node's
// words, a line each.
func (n *Node) TryTaskHCL(config string) (*driver.TaskConfig, error) {
	n.t.Helper()
	decoded, err := n.checkHCL(n.Describe().TaskConfigSchema, config)
	if err != nil {
		return nil, err
	}
	return n.newTask(decoded)
}

// ConfigureHCL is Configure with what is in the plugin's config block as an agent's
// configuration has it. Its refusals are as those of [Node.TryTaskHCL].
func (n *core) ConfigureHCL(config string) error {
	n.t.Helper()
	schema, err := n.ops.schema(n.describeRaw(context.Background()))
	if err != nil {
		return err
	}
	decoded, err := n.checkHCL(schema, config)
	if err != nil {
		return err
	}
	return n.Configure(string(decoded))
}

// checkHCL has the program check a block against a schema.
func (n *core) checkHCL(schema, config string) ([]byte, error) {
	n.t.Helper()
	program := find(n.t)
	file := filepath.Join(n.t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		n.t.Fatalf("drivertest: %v", err)
	}
	cmd := exec.Command(program, "plugin", "config", "-schema", file)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(config), &said
	out, err := cmd.Output()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		return nil, errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "Error: "))
	case err != nil:
		n.t.Fatalf("drivertest: %s: %v", program, err)
	}
	value, err := decode(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return encode(value)
}
