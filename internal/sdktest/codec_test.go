package sdktest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

func TestAllMessagesOfTheSchemaAreCompared(t *testing.T) {
	files, err := filepath.Glob("../../abi/proto/wasmnode/v1/*.proto")
	require.NoError(t, err)
	var declared, compared []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^message (\w+) `).FindAllSubmatch(source, -1) {
			declared = append(declared, string(m[1]))
		}
	}
	for _, m := range messages {
		compared = append(compared, nameOf(m))
	}
	require.ElementsMatch(t, declared, compared)
}

// sample is a message that an SDK is to decode and encode again.
type sample struct {
	of    message
	bytes []byte
}

// verdict is what an SDK said to a sample.
type verdict struct {
	code  abi.Code
	bytes []byte
}

// ask sends samples to the program of an SDK, which answers one after the other.
func ask(t *testing.T, echo program, samples []sample) []verdict {
	var in []byte
	for _, s := range samples {
		in = append(append(in, byte(len(nameOf(s.of)))), nameOf(s.of)...)
		in = append(binary.LittleEndian.AppendUint32(in, uint32(len(s.bytes))), s.bytes...)
	}
	out := echo.run(t, in)
	verdicts := make([]verdict, len(samples))
	for i := range verdicts {
		require.GreaterOrEqual(t, len(out), 5)
		size := binary.LittleEndian.Uint32(out[1:])
		verdicts[i] = verdict{abi.Code(out[0]), out[5 : 5+size]}
		out = out[5+size:]
	}
	require.Empty(t, out)
	return verdicts
}

func encode(t *testing.T, m message) []byte {
	b, err := m.MarshalVT()
	require.NoError(t, err)
	return b
}

func TestMessagesAreTheSameBytesAsInGo(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, echo program) {
		r := rand.New(rand.NewPCG(1, 2))
		var samples []sample
		for _, m := range messages {
			samples = append(samples, sample{m, nil})
			for range 30 {
				samples = append(samples, sample{m, encode(t, random(m, r, 1))})
			}
		}
		for i, v := range ask(t, echo, samples) {
			require.Zero(t, v.code, nameOf(samples[i].of))
			require.True(t, bytes.Equal(samples[i].bytes, v.bytes), "%s\nGo %x\nis %x", nameOf(samples[i].of), samples[i].bytes, v.bytes)
		}
	})
}

func TestMapsKeepAllTheirEntries(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, echo program) {
		r := rand.New(rand.NewPCG(3, 4))
		var samples []sample
		for range 20 {
			for _, m := range []message{&wasmnodev1.TaskConfig{}, &wasmnodev1.DeviceGroup{}, &wasmnodev1.DeviceGroupStats{}, &wasmnodev1.DriverNetwork{}} {
				samples = append(samples, sample{m, encode(t, random(m, r, 9))})
			}
		}
		for i, v := range ask(t, echo, samples) {
			require.Zero(t, v.code)
			requireSame(t, samples[i], v)
		}
	})
}

// unknown are fields that no message has: of each wire type, and groups in one another.
func unknown() []byte {
	const number = 1 << 20
	b := protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), 1<<63)
	b = protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), 1)
	b = protowire.AppendFixed32(protowire.AppendTag(b, number, protowire.Fixed32Type), 1)
	b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), "later")
	b = protowire.AppendTag(b, number, protowire.StartGroupType)
	b = protowire.AppendTag(b, 1, protowire.StartGroupType)
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), "inside")
	b = protowire.AppendTag(b, 1, protowire.EndGroupType)
	return protowire.AppendTag(b, number, protowire.EndGroupType)
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, echo program) {
		r := rand.New(rand.NewPCG(5, 6))
		var samples []sample
		var known [][]byte
		for _, m := range messages {
			b := encode(t, random(m, r, 1))
			known = append(known, b, b)
			samples = append(samples, sample{m, append(unknown(), b...)}, sample{m, append(bytes.Clone(b), unknown()...)})
		}
		for i, v := range ask(t, echo, samples) {
			require.Zero(t, v.code, nameOf(samples[i].of))
			require.True(t, bytes.Equal(known[i], v.bytes), nameOf(samples[i].of))
		}
	})
}

// Whatever Go refuses is refused, and what is taken means the same.
func TestHostileInputIsRefusedWhereGoRefusesIt(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, echo program) {
		var samples []sample
		r := rand.New(rand.NewPCG(7, 8))
		for _, m := range messages {
			b := encode(t, random(m, r, 1))
			for range 40 {
				samples = append(samples, sample{m, damage(b, r)})
			}
		}
		task := encode(t, random(&wasmnodev1.TaskConfig{}, r, 1))
		for i := range len(task) { // each truncation
			samples = append(samples, sample{&wasmnodev1.TaskConfig{}, task[:i]})
		}
		refused := 0
		for i, v := range ask(t, echo, samples) {
			decoded := empty(samples[i].of)
			err := decoded.UnmarshalVT(samples[i].bytes)
			if v.code != 0 {
				require.Equal(t, abi.InvalidArgument, v.code)
				refused++
				continue
			}
			require.NoError(t, err, "%s %x", nameOf(samples[i].of), samples[i].bytes)
			requireSame(t, samples[i], v)
		}
		require.Greater(t, refused, len(samples)/10)
		require.Less(t, refused, len(samples)*9/10)
	})
}

// damage changes, removes or adds a few bytes.
func damage(b []byte, r *rand.Rand) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b) + 1)
		switch r.IntN(3) {
		case 0:
			b = b[:at]
		case 1:
			b = append(b[:at:at], append([]byte{byte(r.Uint32())}, b[at:]...)...)
		default:
			if at < len(b) {
				b[at] ^= 1 << r.IntN(8)
			}
		}
	}
	return b
}

// requireSame compares what Go decodes of a sample and of what an SDK made of it.
func requireSame(t *testing.T, s sample, v verdict) {
	theirs, ours := empty(s.of), empty(s.of)
	require.NoError(t, ours.UnmarshalVT(s.bytes))
	require.NoError(t, theirs.UnmarshalVT(v.bytes))
	forget(reflect.ValueOf(ours))
	if !isText(reflect.ValueOf(ours)) {
		return
	}
	a, b := encode(t, ours), encode(t, theirs)
	if !bytes.Equal(a, b) { // the maps may be in another order
		require.Len(t, b, len(a))
		require.True(t, reflect.DeepEqual(ours, theirs), "%s\nGo %v\nis %v", nameOf(s.of), ours, theirs)
	}
}

func TestAListOfNumbersMayBePackedOrNot(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, echo program) {
		loose := []byte{0x20, 1, 0x20, 0x80, 1, 0x22, 2, 3, 4}
		verdicts := ask(t, echo, []sample{{&wasmnodev1.Resources{}, loose}, {&wasmnodev1.Resources{}, []byte{0x22, 1, 0x80}}})
		require.Equal(t, encode(t, &wasmnodev1.Resources{Cores: []uint32{1, 128, 3, 4}}), verdicts[0].bytes)
		require.Equal(t, abi.InvalidArgument, verdicts[1].code)
	})
}

// A message of four bytes can stand for one of hundreds in memory.
func TestWhatDoesNotFitIntoMemoryIsRefused(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, echo program) {
		many := bytes.Repeat([]byte{0x0a, 0}, 2<<20) // DeviceFingerprintResponse.groups
		v := ask(t, echo, []sample{{&wasmnodev1.DeviceFingerprintResponse{}, many}})[0]
		require.Equal(t, abi.ResourceExhausted, v.code)
	})
}
