package drivers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// inEachLanguage runs a test with a driver of programs that is built with the SDK for each language.
func inEachLanguage(t *testing.T, test func(t *testing.T, node *drivertest.Node)) {
	for name, build := range map[string]func(t *testing.T) []byte{
		"assemblyscript_minimal": buildAssemblyScript,

		"c_minimal":    func(t *testing.T) []byte { return guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal") },
		"rust_minimal": buildRust,
		"wasi":         func(t *testing.T) []byte { return guestbuild.Plugin(t, "guest-examples/drivers/wasi") },
		"zig_minimal":  buildZig,
	} {
		t.Run(name, func(t *testing.T) {
			node := drivertest.NewCompiled(t, build(t), nil)
			require.Equal(t, name, node.Describe().Name)
			test(t, node)
		})
	}
}

// orByHand adds the driver on the ABI's page, which has no SDK at all.
func orByHand(t *testing.T, test func(t *testing.T, node *drivertest.Node)) {
	inEachLanguage(t, test)
	t.Run("by_hand", func(t *testing.T) {
		test(t, drivertest.NewCompiled(t, guestbuild.CPlugin(t, "guest-examples/drivers/testdata/by-hand"), nil))
	})
}

func buildAssemblyScript(t *testing.T) []byte {
	return guestbuild.AssemblyScriptPlugin(t, "guest-examples/drivers/assemblyscript-minimal", "sdk/assemblyscript")
}

func buildRust(t *testing.T) []byte {
	return guestbuild.RustPlugin(t, "guest-examples/drivers/rust-minimal", "sdk/rust")
}

func buildZig(t *testing.T) []byte {
	return guestbuild.ZigPlugin(t, "guest-examples/drivers/zig-minimal", "sdk/zig")
}

func TestInEachLanguageATaskIsTheProgramThatItsConfigNames(t *testing.T) {
	orByHand(t, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"module": "local/app.wasm"}`)
		task.Id = strings.Repeat("long", 100) // a length of two bytes in a varint
		task.Env = map[string]string{"A": "1", "EMPTY": "", "BIG": strings.Repeat("x", 1000)}
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, task.Id, handle.WorkloadId)
		require.Equal(t, uint32(1), handle.Version)
		program := node.Programs()[0]
		require.Equal(t, "local/app.wasm", program.Module)
		require.Equal(t, task.Env, program.Env)
	})
}

func TestInEachLanguageAConfigIsReadAsJSON(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"module": "m"}`)
		task.DriverConfig = []byte(`{"module": "lo\"c\u00fcal/\ud83d\ude00.wasm", "args": ["-v", "", "\n"]}`)
		_, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, "lo\"c\u00fcal/\U0001f600.wasm", node.Programs()[0].Module)
		require.Equal(t, []string{"-v", "", "\n"}, node.Programs()[0].Args)
	})
}

func TestInEachLanguageWhatTheNodeRefusesIsTheStartsError(t *testing.T) {
	orByHand(t, func(t *testing.T, node *drivertest.Node) {
		node.RefuseWasm(abi.NewRecoverableError(abi.NotFound, "local/app.wasm: no such file"))
		_, _, err := node.StartTask(node.Task(`{"module": "local/app.wasm"}`))
		require.EqualError(t, err, "local/app.wasm: no such file")
		require.Equal(t, abi.NotFound, abi.CodeOf(err))
		require.True(t, abi.IsRecoverable(err))
	})
}

func TestInEachLanguageBadInputIsAnErrorNotAFault(t *testing.T) {
	encode := func(task *driver.TaskConfig) []byte {
		request, err := (&wasmnodev1.DriverStartTaskRequest{Task: task}).MarshalVT()
		require.NoError(t, err)
		return request
	}
	orByHand(t, func(t *testing.T, node *drivertest.Node) {
		for name, request := range map[string][]byte{
			"nothing":           nil,
			"no config":         encode(&driver.TaskConfig{Id: "a"}),
			"an open string":    encode(&driver.TaskConfig{DriverConfig: []byte(`{"module":"a`)}),
			"a length past end": {0x0a, 0x7f},
			"a bad inner field": {0x0a, 0x02, 0x0a, 0x7f},
		} {
			_, err := node.Call(abi.OpDriverStartTask, request)
			require.Equal(t, abi.InvalidArgument, abi.CodeOf(err), "%s: %v", name, err)
		}
	})
}

// By hand there is a buffer of 256 KiB, with an SDK what the node sends.
func TestInEachLanguageATaskOfAnySizeIsReadOrRefused(t *testing.T) {
	orByHand(t, func(t *testing.T, node *drivertest.Node) {
		large := node.Task(`{"module": "m"}`)
		large.Env = map[string]string{"LARGE": strings.Repeat("x", 2<<20)}
		request, err := (&wasmnodev1.DriverStartTaskRequest{Task: large}).MarshalVT()
		require.NoError(t, err)
		_, err = node.Call(abi.OpDriverStartTask, request)
		if node.Describe().Name == "by_hand" {
			require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
			return
		}
		require.NoError(t, err)
		require.Len(t, node.Programs()[0].Env["LARGE"], 2<<20)
	})
}

func TestInEachLanguageTheDriverIsHealthyAndHasNoOptionalOperations(t *testing.T) {
	orByHand(t, func(t *testing.T, node *drivertest.Node) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health)
		_, _, err = node.WaitTask(node.Task(`{"module": "m"}`), &driver.TaskHandle{Version: 1})
		require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
	})
}
