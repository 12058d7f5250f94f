package protowire_test

import (
	"testing"

	lite "github.com/aperturerobotics/protobuf-go-lite"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/internal/protowire"
)

func TestErrorsNameTheirNumbers(t *testing.T) {
	require.EqualError(t, protowire.Errorf("proto: wrong wireType = %d for field Key", 5), "proto: wrong wireType = 5 for field Key")
	require.EqualError(t, protowire.Errorf("tag %d (wire type %d)", int32(-1), uint64(7)), "tag -1 (wire type 7)")
	require.EqualError(t, protowire.Errorf("50% of %d"), "50% of %d")
}

func FuzzVarintsAgreeWithTheGeneratorsRuntime(f *testing.F) {
	for _, v := range []uint64{0, 1, 127, 128, 1 << 14, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v uint64) {
		require.Equal(t, lite.SizeOfVarint(v), protowire.SizeOfVarint(v))
		ours, theirs := make([]byte, 12), make([]byte, 12)
		require.Equal(t, lite.EncodeVarint(theirs, 11, v), protowire.EncodeVarint(ours, 11, v))
		require.Equal(t, theirs, ours)
		got, end, err := protowire.DecodeVarint(ours, 11-protowire.SizeOfVarint(v))
		require.NoError(t, err)
		require.Equal(t, v, got)
		require.Equal(t, 11, end)
	})
}

func FuzzDecodingAgreesWithTheGeneratorsRuntime(f *testing.F) {
	for _, seed := range [][]byte{
		{8, 1}, {0x0a, 3, 1, 2, 3}, {0x0a, 0x7f}, {9, 1, 2, 3, 4, 5, 6, 7, 8}, {13, 1, 2, 3, 4}, {0x0b, 8, 1, 0x0c}, {0x0c}, {7},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2},
		{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, wantEnd, wantErr := lite.DecodeVarint(b, 0)
		got, end, err := protowire.DecodeVarint(b, 0)
		// Theirs drops the bits of a tenth byte that do not fit; ours refuses it, as
		// the specification's own implementations do.
		if tooLarge := len(b) > 9 && b[9] > 1; wantErr == nil && (!tooLarge || wantEnd != 10) {
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, wantEnd, end)
		}
		if wantErr != nil {
			require.Error(t, err)
		}
		if wantLen, wantErr := lite.Skip(b); err == nil && wantErr == nil && wantLen <= len(b) {
			if n, err := protowire.Skip(b); err == nil {
				require.Equal(t, wantLen, n)
			}
		}
		if n, err := protowire.Skip(b); err == nil {
			wantLen, wantErr := lite.Skip(b)
			require.NoError(t, wantErr)
			require.Equal(t, wantLen, n)
			require.LessOrEqual(t, n, len(b))
		}
	})
}
