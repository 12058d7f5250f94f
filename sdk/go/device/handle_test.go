package device_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
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
		require.Equal(t, abi.Unimplemented, abi.CodeOf(err), operation)
	}
}

func TestARequestThatCannotBeReadOrNamesNobodyIsAnInvalidArgument(t *testing.T) {
	for _, operation := range []string{
		abi.OpDeviceDescribe, abi.OpDeviceConfigure, abi.OpDeviceFingerprint,
		abi.OpDeviceReserve, abi.OpDeviceRelease, abi.OpDeviceStats,
	} {
		_, err := device.Handle(context.Background(), full{}, operation, []byte{0x0a, 0xff})
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err), operation)
	}
	for missing, r := range map[string]*wasmnodev1.DeviceReserveRequest{
		"group":      {DeviceIds: []string{"a"}, User: &device.User{}},
		"device_ids": {Group: group, User: &device.User{}},
		"user":       {Group: group, DeviceIds: []string{"a"}},
	} {
		request, err := r.MarshalVT()
		require.NoError(t, err)
		for _, operation := range []string{abi.OpDeviceReserve, abi.OpDeviceRelease} {
			_, err = device.Handle(context.Background(), full{}, operation, request)
			require.EqualError(t, err, "request: "+missing+" is missing", operation)
		}
	}
}

func TestWhatAPluginAnswersArrives(t *testing.T) {
	node := drivertest.NewDevice(t, func() device.Plugin {
		return full{plain{fingerprint: &device.Fingerprint{NextPollMs: 5}, edits: &device.Edits{}}}
	})
	require.NoError(t, node.Configure(""))
	f, err := node.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, uint32(5), f.NextPollMs)
	edits, err := node.Reserve(group, "web", "id1")
	require.NoError(t, err)
	require.Equal(t, []string{"FOR=web", "GROUP=n", "ID=id1"}, edits.Env)
	require.EqualError(t, node.Release(group, "web", "id1"), "web")
	s, err := node.Stats()
	require.NoError(t, err)
	require.Equal(t, uint32(7), s.NextPollMs)
}

func TestAPluginThatAnswersNothingIsAnInternalError(t *testing.T) {
	node := drivertest.NewDevice(t, func() device.Plugin { return plain{} })
	_, err := node.Fingerprint()
	require.Equal(t, abi.Internal, abi.CodeOf(err))
	_, err = node.Reserve(group, "web", "id1")
	require.Equal(t, abi.Internal, abi.CodeOf(err))
}

func TestUnsetAndZeroDiffer(t *testing.T) {
	for _, v := range []*device.Value{device.IntValue(0, "MiB"), device.IntOf(0, 0, "MiB"), device.FloatValue(0, ""), device.StringValue(""), {}} {
		encoded, err := v.MarshalVT()
		require.NoError(t, err)
		decoded := &device.Value{}
		require.NoError(t, decoded.UnmarshalVT(encoded))
		require.True(t, v.EqualVT(decoded))
		require.Equal(t, v.Value == nil, decoded.Value == nil)
		require.Equal(t, v.Denominator == nil, decoded.Denominator == nil)
	}
}
