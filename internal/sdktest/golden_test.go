package sdktest

import (
	"encoding/hex"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// golden are messages that the tests of each SDK write member by member: what is only
// decoded and encoded again shows nothing of names.
var golden = map[string]message{
	"task": &wasmnodev1.TaskConfig{
		Id: "id", Namespace: "default", Env: map[string]string{"KEY": "value"},
		Resources:    &wasmnodev1.Resources{CpuMhz: 500, MemoryBytes: 1 << 33, Cores: []uint32{0, 1, 300}},
		Ports:        []*wasmnodev1.Port{{Label: "http", HostIp: "::1", HostPort: 8080, TaskPort: 80}, {Label: "db"}},
		DriverConfig: []byte("{}"),
	},
	"stat": &wasmnodev1.StatValue{
		Value:       &wasmnodev1.StatValue_IntValue{IntValue: -1},
		Denominator: &wasmnodev1.StatValue_FloatDenominator{FloatDenominator: 0.5},
		Unit:        "MiB",
	},
	"exec": &wasmnodev1.DriverExecTaskResponse{
		Stdout: []byte("out"), Stderr: []byte("err"), Result: &wasmnodev1.ExitResult{ExitCode: -1, Signal: 9, OomKilled: true},
	},
	"set": &wasmnodev1.KvSetRequest{Key: "k", Version: new(uint64)},
}

// The program in C tests what else there is of its SDK, without a node.
func TestMembersHaveTheNamesOfTheSchema(t *testing.T) {
	for language, program := range map[string]func(*testing.T) program{
		"assemblyscript": echoInAssemblyScript,

		"c":    func(t *testing.T) program { return compileC(t, "../../sdk/c/testdata/test.c") },
		"rust": func(t *testing.T) program { return compileRust(t, "../../sdk/rust/testdata/echo.rs") },
		"zig":  func(t *testing.T) program { return compileZig(t, "build-exe", "../../sdk/zig/testdata/echo.zig") },
	} {
		t.Run(language, func(t *testing.T) {
			printed := map[string]string{}
			for line := range strings.Lines(string(program(t).run(t, nil, "golden"))) {
				name, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
				printed[name] = bytes
			}
			want := map[string]string{}
			for name, m := range golden {
				want[name] = hex.EncodeToString(encode(t, m))
			}
			require.Equal(t, want, printed)
		})
	}
}

func TestTheExampleOfTheREADMEInCIsAPlugin(t *testing.T) {
	readme, err := os.ReadFile("../../sdk/c/README.md")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(readme), "```c\n")
	code, _, found := strings.Cut(code, "```\n")
	require.True(t, found)
	cmd := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I../../sdk/c", "-x", "c", "-")
	cmd.Stdin = strings.NewReader(code)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
}
