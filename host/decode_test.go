package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// fromGuests are the messages that guests write and that have something in them that
// repeats.
func fromGuests() []Message {
	return []Message{
		&wasmnodev1.DeviceFingerprintResponse{}, &wasmnodev1.DeviceReserveResponse{}, &wasmnodev1.DeviceStatsResponse{},
		&wasmnodev1.DriverFingerprintResponse{}, &wasmnodev1.DriverStartTaskResponse{}, &wasmnodev1.DriverInspectTaskResponse{},
		&wasmnodev1.WasmStartRequest{}, &wasmnodev1.ProcessStartRequest{}, &wasmnodev1.TaskEvent{}, &wasmnodev1.LogFields{},
	}
}

// floods are encoded messages of about size bytes, by the field that they repeat without
// anything in it.
func floods(l *layout, name string, size int, wrap func([]byte) []byte, found map[string][]byte) {
	field := func(number uint32, content []byte) []byte {
		b := binary.AppendUvarint(nil, uint64(number)<<3|2)
		return append(binary.AppendUvarint(b, uint64(len(content))), content...)
	}
	for number, e := range l.fields {
		once := field(number, nil)
		if l.entry && e.wireType == varint {
			once[0] = byte(number << 3)
		}
		var many []byte
		for len(many) < size {
			many = append(many, once...)
		}
		path := fmt.Sprintf("%s.%d", name, number)
		found[path] = wrap(many)
		if e.message != nil {
			floods(e.message, path, size, func(b []byte) []byte { return wrap(field(number, b)) }, found)
		}
	}
}

// taken is the memory that decoding takes, garbage too, which is there until it is
// collected; and what comes of it.
func taken(t *testing.T, f func() error) (bytes uint64, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

func TestNoMessageOfAGuestTakesMuchMoreMemoryThanItIsLong(t *testing.T) {
	for _, m := range fromGuests() {
		of := reflect.TypeOf(m).Elem()
		fresh := func() Message { return reflect.New(of).Interface().(Message) }
		found := map[string][]byte{}
		floods(layoutOf(of), of.Name(), 4<<20, func(b []byte) []byte { return b }, found)
		for path, wire := range found {
			bounded, err := taken(t, func() error { return decode(wire, fresh()) })
			require.LessOrEqual(t, bounded, uint64(3*maxDecodedBytes), path)
			if path == "DeviceFingerprintResponse.1" {
				require.ErrorIs(t, err, errTooMuch, path)
				plain, _ := taken(t, func() error { return fresh().UnmarshalVT(wire) })
				t.Logf("%d MiB without the bound", plain>>20)
				require.Greater(t, plain, uint64(150<<20))
			}
		}
	}
}

// TestTheMemoryCountOfAMessageErrsUpwards compares it with what is held once a message is decoded.
func TestTheMemoryCountOfAMessageErrsUpwards(t *testing.T) {
	for _, m := range fromGuests() {
		of := reflect.TypeOf(m).Elem()
		found := map[string][]byte{}
		floods(layoutOf(of), of.Name(), 200_000, func(b []byte) []byte { return b }, found)
		for path, wire := range found {
			budget := maxDecodedBytes
			require.NoError(t, layoutOf(of).spend(wire, &budget), path)
			into := reflect.New(of).Interface().(Message)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_ = into.UnmarshalVT(wire)
			runtime.GC()
			runtime.ReadMemStats(&after)
			held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			require.LessOrEqual(t, held, int64(maxDecodedBytes-budget)+16<<10, path)
			runtime.KeepAlive(into)
		}
	}
}

func TestTheFiguresOfManyDevicesAreDecoded(t *testing.T) {
	g := &wasmnodev1.DeviceGroupStats{Id: &wasmnodev1.DeviceGroupId{Vendor: "v", Type: "t", Name: "n"}, Devices: map[string]*wasmnodev1.DeviceStats{}}
	for i := range 4096 {
		s := &wasmnodev1.DeviceStats{}
		for k := range 12 {
			s.Stats = append(s.Stats, &wasmnodev1.DeviceStat{Path: []string{"memory", fmt.Sprint(k)}, Value: &wasmnodev1.StatValue{
				Value: &wasmnodev1.StatValue_IntValue{IntValue: int64(i)}, Unit: "MiB", Description: "Memory that is in use",
			}})
		}
		g.Devices[fmt.Sprintf("GPU-%032d", i)] = s
	}
	sent := &wasmnodev1.DeviceStatsResponse{Groups: []*wasmnodev1.DeviceGroupStats{g}}
	wire := marshal(sent)
	require.Less(t, len(wire), 4<<20)
	got := &wasmnodev1.DeviceStatsResponse{}
	require.NoError(t, decode(wire, got))
	require.True(t, got.EqualVT(sent))
}

// A tag of more than 32 bits names the field of its lower ones to the decoder.
func TestALongTagDoesNotHideAField(t *testing.T) {
	var wire []byte
	for len(wire) < 4<<20 {
		wire = append(binary.AppendUvarint(wire, 1<<35|1<<3|2), 0)
	}
	require.NoError(t, (&wasmnodev1.DeviceFingerprintResponse{}).UnmarshalVT(wire))
	require.ErrorIs(t, decode(wire, &wasmnodev1.DeviceFingerprintResponse{}), errTooMuch)
}

// The decoder reads an entry's value as a message, whatever its tag says that it is.
func TestATypeDoesNotHideAMapsValue(t *testing.T) {
	var stats []byte // each takes a hundred bytes and more
	for len(stats) < 3<<20 {
		stats = append(stats, 0x0a, 0)
	}
	field := func(tag byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{tag}, uint64(len(content))), content...)
	}
	for _, tag := range []byte{0x10, 0x11, 0x12, 0x15, 0x17} { // field 2, in five types
		wire := field(0x0a, field(0x12, field(tag, stats)))
		require.NoError(t, (&wasmnodev1.DeviceStatsResponse{}).UnmarshalVT(wire))
		want := errEntry
		if tag == 0x12 {
			want = errTooMuch
		}
		require.ErrorIs(t, decode(wire, &wasmnodev1.DeviceStatsResponse{}), want)
	}
}

// FuzzDecode: nothing is refused that the decoder takes, but what is too much, entries of other
// types than the contract's, and groups, which it does not have.
func FuzzDecode(f *testing.F) {
	for i := range fromGuests() {
		f.Add(i, []byte{0x0a, 0})
		f.Add(i, []byte{0x0a, 4, 0x12, 2, 0x0a, 0})
	}
	isGroup := func(b byte) bool { return b&7 == 3 }
	f.Fuzz(func(t *testing.T, which int, wire []byte) {
		all := fromGuests()
		m := all[uint(which)%uint(len(all))]
		if slices.ContainsFunc(wire, isGroup) || m.UnmarshalVT(wire) != nil {
			return
		}
		if err := decode(wire, m); !errors.Is(err, errEntry) {
			require.NoError(t, err)
		}
	})
}
