package taskenv_test

import (
	"fmt"
	"testing"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/taskenv"
)

// A driver whose own configuration has a pattern of names for what it starts.
func ExampleReplace() {
	task := &driver.TaskConfig{NodeName: "n1", Env: map[string]string{"NOMAD_JOB_NAME": "shop", "NOMAD_TASK_NAME": "web"}}
	fmt.Println(taskenv.Replace(task, "${NOMAD_JOB_NAME}-${ env.NOMAD_TASK_NAME }-on-${node.unique.name}, ${attr.kernel.name}"))
	// Output: shop-web-on-n1, ${attr.kernel.name}
}

// A test of a driver whose tasks listen where a variable says.
func ExampleVariables() {
	task := &driver.TaskConfig{Name: "web", Ports: []*driver.Port{{Label: "http", HostIp: "10.0.0.1", HostPort: 25000, TaskPort: 80}}}
	task.Env = taskenv.Variables(task, taskenv.More{Isolated: true})
	fmt.Println(task.Env["NOMAD_PORT_http"], task.Env["NOMAD_ADDR_http"], task.Env["NOMAD_TASK_DIR"])
	// Output: 80 10.0.0.1:25000 /local
}

// What the node makes of the same is compared in runners/taskenv.
func TestReferencesAreReplaced(t *testing.T) {
	task := &driver.TaskConfig{NodeId: "id", NodeName: "n1", Env: map[string]string{"X": "x", "NOMAD_META_odd_key": "odd", "a b": "spaced"}}
	for text, want := range map[string]string{
		"":                              "",
		"$X {X} ${} ${":                 "$X {X} ${} ${",
		"${X}${X}":                      "xx",
		"${${X}}":                       "${x}",
		`${ env[ "a b" ] }`:             "spaced",
		`${env["X"}`:                    `${env["X"}`,
		`${env[""]}`:                    `${env[""]}`,
		"${env.X}":                      "x",
		"${NOMAD_META_odd-key}":         "odd",
		"${node.unique.id}":             "id",
		"${node.class} ${meta.x} ${no}": "${node.class} ${meta.x} ${no}",
	} {
		expect.Equal(t, taskenv.Replace(task, text), want, text)
	}
}
