package wiretest

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Field numbers of abi/proto.
const (
	stopTimeoutMs   protowire.Number = 3 // DriverStopTaskRequest.timeout_ms
	attributeFloat  protowire.Number = 4 // Attribute.float_value
	attributeInt    protowire.Number = 3 // Attribute.int_value
	waitPollAfterMs protowire.Number = 2 // DriverWaitTaskResponse.poll_after_ms
)

func FuzzVarintsAreEncodedAsGoogleDoes(f *testing.F) {
	for _, v := range []uint64{0, 1, 127, 128, 1 << 14, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v uint64) {
		ours := &wasmnodev1.DriverStopTaskRequest{TimeoutMs: v}
		var theirs []byte
		if v != 0 { // proto3 leaves out a zero
			theirs = protowire.AppendVarint(protowire.AppendTag(nil, stopTimeoutMs, protowire.VarintType), v)
		}
		roundTrip(t, ours, new(wasmnodev1.DriverStopTaskRequest), theirs)
		require.Equal(t, len(theirs), ours.SizeVT())

		poll := protowire.AppendVarint(protowire.AppendTag(nil, waitPollAfterMs, protowire.VarintType), v)
		var narrow wasmnodev1.DriverWaitTaskResponse
		require.NoError(t, narrow.UnmarshalVT(poll))
		require.Equal(t, uint32(v), narrow.PollAfterMs, "a uint32 is the lower half")
	})
}

func FuzzNumbersOfAttributesAreEncodedAsGoogleDoes(f *testing.F) {
	for _, v := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v int64) {
		integer := &wasmnodev1.Attribute{Value: &wasmnodev1.Attribute_IntValue{IntValue: v}}
		roundTrip(t, integer, new(wasmnodev1.Attribute),
			protowire.AppendVarint(protowire.AppendTag(nil, attributeInt, protowire.VarintType), uint64(v)))
		float := &wasmnodev1.Attribute{Value: &wasmnodev1.Attribute_FloatValue{FloatValue: math.Float64frombits(uint64(v))}}
		theirs := protowire.AppendFixed64(protowire.AppendTag(nil, attributeFloat, protowire.Fixed64Type), uint64(v))
		encoded, err := float.MarshalVT()
		require.NoError(t, err)
		require.Equal(t, theirs, encoded)
		decoded := new(wasmnodev1.Attribute)
		require.NoError(t, decoded.UnmarshalVT(encoded))
		require.Equal(t, uint64(v), math.Float64bits(decoded.GetFloatValue()))
	})
}

// codec is a generated message.
type codec[M any] interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
	EqualVT(M) bool
}

// roundTrip checks that message is encoded as want and decoded from it into empty.
func roundTrip[M codec[M]](t *testing.T, message, empty M, want []byte) {
	t.Helper()
	encoded, err := message.MarshalVT()
	require.NoError(t, err)
	require.Equal(t, string(want), string(encoded))
	require.NoError(t, empty.UnmarshalVT(want))
	require.True(t, message.EqualVT(empty))
}

// FuzzUnknownFieldsAreSkippedAsGoogleDoes decodes anything as a message that has no
// fields: every field is skipped and kept.
func FuzzUnknownFieldsAreSkippedAsGoogleDoes(f *testing.F) {
	for _, seed := range [][]byte{
		{8, 1}, {0x0a, 3, 1, 2, 3}, {0x0a, 0x7f}, {9, 1, 2, 3, 4, 5, 6, 7, 8}, {13, 1, 2, 3, 4}, {0x0b, 8, 1, 0x0c}, {0x0c}, {7}, {0x80},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2},
		{8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2},
		{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {8, 1, 8}, {0x0b, 0x14},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m wasmnodev1.DriverConfigureResponse
		err := m.UnmarshalVT(b)
		theirs := consume(b)
		switch {
		case err == nil && theirs == nil:
			kept, err := m.MarshalVT()
			require.NoError(t, err)
			require.Equal(t, string(b), string(kept))
		case err == nil:
			require.True(t, moreStrict(theirs), "only Google's refuses it: %v", theirs)
		case theirs == nil:
			require.ErrorContains(t, err, "nested too deep", "only ours refuses it")
		}
	})
}

// consume returns Google's opinion of a message whose fields it does not know.
func consume(b []byte) error {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

// moreStrict reports whether an error of Google's is about what ours does not look at in
// a field that it skips: the range of field numbers, and which group an end belongs to.
func moreStrict(err error) bool {
	return strings.Contains(err.Error(), "field number") || strings.Contains(err.Error(), "end group")
}
