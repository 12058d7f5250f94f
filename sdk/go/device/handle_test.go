package device_test

import (
	"context"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

// plain has only what is required, and answers what its fields say.
type plain struct {
	fingerprint *device.Fingerprint
	edits       *device.Edits
	err         error
}

func (p plain) Describe() *device.Description {
	return &device.Description{Name: "plain", Version: "1.0.0", PluginConfigSchema: `{"properties": {"n": {"default": 3}}}`}
}
func (p plain) Configure(context.Context, []byte) error { return p.err }
func (p plain) Fingerprint(context.Context) (*device.Fingerprint, error) {
	return p.fingerprint, p.err
}
func (p plain) Reserve(_ context.Context, r *device.Reservation) (*device.Edits, error) {
	if p.edits != nil {
		p.edits.Env = []string{"FOR=" + r.User.TaskName, "GROUP=" + r.Group.Name, "ID=" + r.DeviceIDs[0]}
	}
	return p.edits, p.err
}

// full has the optional operations too.
type full struct{ plain }

func (f full) Release(_ context.Context, r *device.Reservation) error {
	return abi.NewError(abi.NotFound, r.User.TaskName)
}
func (f full) Stats(context.Context) (*device.Stats, error) {
	return &device.Stats{NextPollMs: 7}, f.err
}

var group = &device.GroupID{Vendor: "v", Type: "t", Name: "n"}

func TestOptionalOperationsThatAreNotThereAreUnimplemented(t *testing.T) {
	for _, operation := range []string{abi.OpDeviceRelease, abi.OpDeviceStats, abi.OpDriverStartTask, ""} {
		_, err := device.Handle(context.Background(), plain{}, operation, nil)
		expect.Code(t, err, abi.Unimplemented, operation)
	}
}

func TestARequestThatCannotBeReadOrHasNoUserIsAnInvalidArgument(t *testing.T) {
	for _, operation := range []string{
		abi.OpDeviceDescribe, abi.OpDeviceConfigure, abi.OpDeviceFingerprint,
		abi.OpDeviceReserve, abi.OpDeviceRelease, abi.OpDeviceStats,
	} {
		_, err := device.Handle(context.Background(), full{}, operation, []byte{0x0a, 0xff})
		expect.Code(t, err, abi.InvalidArgument, operation)
	}
	for missing, r := range map[string]*wasmnodev1.DeviceReserveRequest{
		"group":      {DeviceIds: []string{"a"}, User: &device.User{}},
		"device_ids": {Group: group, User: &device.User{}},
		"user":       {Group: group, DeviceIds: []string{"a"}},
	} {
		request, err := r.MarshalVT()
		expect.NoError(t, err)
		for _, operation := range []string{abi.OpDeviceReserve, abi.OpDeviceRelease} {
			_, err = device.Handle(context.Background(), full{}, operation, request)
			expect.Message(t, err, "request: "+missing+" is missing", operation)
		}
	}
}

func TestWhatAPluginAnswersArrives(t *testing.T) {
	node := drivertest.NewDevice(t, func() device.Plugin {
		return full{plain{fingerprint: &device.Fingerprint{NextPollMs: 5}, edits: &device.Edits{}}}
	})
	expect.NoError(t, node.Configure(""))
	f, err := node.Fingerprint()
	expect.NoError(t, err)
	expect.Equal(t, f.NextPollMs, uint32(5))
	edits, err := node.Reserve(group, "web", "id1")
	expect.NoError(t, err)
	expect.Equal(t, edits.Env, []string{"FOR=web", "GROUP=n", "ID=id1"})
	expect.Message(t, node.Release(group, "web", "id1"), "web")
	s, err := node.Stats()
	expect.NoError(t, err)
	expect.Equal(t, s.NextPollMs, uint32(7))
}

func TestAPluginThatAnswersNothingIsAnInternalError(t *testing.T) {
	node := drivertest.NewDevice(t, func() device.Plugin { return plain{} })
	_, err := node.Fingerprint()
	expect.Code(t, err, abi.Internal)
	_, err = node.Reserve(group, "web", "id1")
	expect.Code(t, err, abi.Internal)
}

func TestUnsetAndZeroDiffer(t *testing.T) {
	for _, v := range []*device.Value{device.IntValue(0, "MiB"), device.IntOf(0, 0, "MiB"), device.FloatValue(0, ""), device.StringValue(""), {}} {
		encoded, err := v.MarshalVT()
		expect.NoError(t, err)
		decoded := &device.Value{}
		expect.NoError(t, decoded.UnmarshalVT(encoded))
		expect.True(t, v.EqualVT(decoded))
		expect.Equal(t, decoded.Value == nil, v.Value == nil)
		expect.Equal(t, decoded.Denominator == nil, v.Denominator == nil)
	}
}
