package host_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// deviceGuest is a device plugin named "gadget" that echoes what it is asked to
// reserve, and whose configuration decides with an answer.
func deviceGuest(configure []byte) []byte { return deviceModule(configure).Bytes() }

func deviceModule(configure []byte) *modtest.Module {
	m := guest(mustMarshal(&wasmnodev1.DeviceDescribeResponse{Name: "gadget", Version: "1.0.0", PluginConfigSchema: "{}"}), nil)
	m.Funcs = nil
	for op, body := range map[string][]byte{
		abi.OpDeviceDescribe:    answer(messageAt, len(m.Data[1].Bytes)),
		abi.OpDeviceConfigure:   configure,
		abi.OpDeviceFingerprint: answer(0, 0),
		abi.OpDeviceReserve:     echo(),
	} {
		m.Funcs = append(m.Funcs, modtest.Func{Export: op, Type: modtest.Operation, Locals: 2, Body: body})
	}
	return m
}

func TestADevicePluginIsDescribedConfiguredAndCalled(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, deviceGuest(answer(0, 0)), host.Grants{})
	require.Equal(t, host.KindDevice, p.Spec().Kind)
	require.Equal(t, "gadget", p.Name())
	require.JSONEq(t, "{}", p.Description().PluginConfigSchema)

	request := &wasmnodev1.DeviceReserveRequest{DeviceIds: []string{"a"}, User: &wasmnodev1.DeviceUser{AllocId: "b"}}
	echoed := &wasmnodev1.DeviceReserveRequest{}
	require.NoError(t, p.Invoke(t.Context(), host.Call{Op: abi.OpDeviceReserve, Request: request, Answer: echoed}))
	require.Equal(t, request.DeviceIds, echoed.DeviceIds)
	err := p.Invoke(t.Context(), host.Call{Op: abi.OpDeviceRelease, Request: &wasmnodev1.DeviceReleaseRequest{}, Answer: &wasmnodev1.DeviceReleaseResponse{}})
	require.Equal(t, abi.Unimplemented, abi.CodeOf(err), "an operation that it does not export")
}

// floods is an encoded answer with as many empty elements as fit into it.
type floods struct {
	wasmnodev1.DeviceReserveRequest
}

func (*floods) MarshalVT() ([]byte, error) { return bytes.Repeat([]byte{0x0a, 0}, 2<<20), nil }

func TestAnAnswerThatGrowsTooLargeWhenItIsDecodedIsAFault(t *testing.T) {
	w := newWorld(t, host.Limits{})
	guest := deviceModule(answer(0, 0))
	guest.Pages = 70
	p := w.ready(t, guest.Bytes(), host.Grants{})
	err := p.Invoke(t.Context(), host.Call{Op: abi.OpDeviceReserve, Request: &floods{}, Answer: &wasmnodev1.DeviceFingerprintResponse{}})
	var fault *host.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, host.FaultProtocol, fault.Kind)
	require.ErrorContains(t, err, "its answer cannot be decoded: it would take more than 32 MiB of memory")
}

func TestADevicePluginThatBreaksOnItsConfigurationIsNotReady(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.load(t, deviceGuest(modtest.Unreachable))
	err := p.Configure(t.Context(), host.Grants{}, []byte("{}"))
	var fault *host.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, abi.OpDeviceConfigure, fault.Op)
}
