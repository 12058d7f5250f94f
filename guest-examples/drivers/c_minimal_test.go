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

func newCNode(t *testing.T) *drivertest.Node {
	return drivertest.NewCompiled(t, guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal"), nil)
}

func TestInCATaskIsTheProgramThatItsConfigNames(t *testing.T) {
	node := newCNode(t)
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
}

func TestInCWhatTheNodeRefusesIsTheStartsError(t *testing.T) {
	node := newCNode(t)
	node.RefuseWasm(abi.NewRecoverableError(abi.NotFound, "local/app.wasm: no such file"))
	_, _, err := node.StartTask(node.Task(`{"module": "local/app.wasm"}`))
	require.EqualError(t, err, "local/app.wasm: no such file")
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
}

func TestInCBadInputIsAnErrorNotAFault(t *testing.T) {
	node := newCNode(t)
	encode := func(task *driver.TaskConfig) []byte {
		request, err := (&wasmnodev1.DriverStartTaskRequest{Task: task}).MarshalVT()
		require.NoError(t, err)
		return request
	}
	for name, c := range map[string]struct {
		request []byte
		want    abi.Code
	}{
		"nothing":            {nil, abi.InvalidArgument},
		"no config":          {encode(&driver.TaskConfig{Id: "a"}), abi.InvalidArgument},
		"an escape":          {encode(&driver.TaskConfig{DriverConfig: []byte(`{"module":"a\"b"}`)}), abi.InvalidArgument},
		"an open string":     {encode(&driver.TaskConfig{DriverConfig: []byte(`{"module":"a`)}), abi.InvalidArgument},
		"a length past end":  {[]byte{0x0a, 0x7f}, abi.InvalidArgument},
		"a bad inner field":  {[]byte{0x0a, 0x02, 0x0a, 0x7f}, abi.InvalidArgument},
		"more than a buffer": {make([]byte, 256<<10+1), abi.ResourceExhausted},
	} {
		_, err := node.Call(abi.OpDriverStartTask, c.request)
		require.Equal(t, c.want, abi.CodeOf(err), "%s: %v", name, err)
	}
}

func TestInCTheDriverIsHealthyAndHasNoOptionalOperations(t *testing.T) {
	node := newCNode(t)
	require.Equal(t, "c_minimal", node.Describe().Name)
	f, err := node.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Healthy, f.Health)
	_, _, err = node.WaitTask(node.Task(`{"module": "m"}`), &driver.TaskHandle{Version: 1})
	require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
}
