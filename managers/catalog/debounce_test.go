package catalog

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

func TestAFileIsTakenOnceItIsComplete(t *testing.T) {
	ms := time.Millisecond
	type look struct {
		at    time.Duration
		files map[string]mark
		want  string // ready and gone files, and when to look again
	}
	one := func(size int64, inode uint64) map[string]mark {
		return map[string]mark{"a": {size: size, inode: inode}}
	}
	touched := map[string]mark{"a": {size: 100, inode: 1, changed: time.Unix(9, 0)}}
	// A file of 100 bytes or more is whole.
	tests := map[string][]look{
		"renamed into place": {
			{0, one(100, 1), "+a"},
			{50 * ms, one(100, 1), ""},
		},
		"copied": {
			{0, one(0, 1), "again 100ms"},
			{100 * ms, one(50, 1), "again 100ms"},
			{200 * ms, one(100, 1), "again 100ms"},
			{250 * ms, one(100, 1), "again 50ms"},
			{300 * ms, one(100, 1), "+a"},
		},
		"written over in place": {
			{0, one(100, 1), "+a"},
			{1000 * ms, one(0, 1), "again 100ms"},
			{1100 * ms, one(110, 1), "again 100ms"},
			{1200 * ms, one(110, 1), "+a"},
		},
		"renamed over": {
			{0, one(100, 1), "+a"},
			{1000 * ms, one(100, 2), "+a"},
		},
		"touched": {
			{0, one(100, 1), "+a"},
			{1000 * ms, touched, "again 100ms"},
			{1100 * ms, touched, "+a"},
		},
		"never complete, told when the time for it is over": {
			{0, one(50, 1), "again 100ms"},
			{1150 * ms, one(50, 1), "again 50ms"},
			{1200 * ms, one(50, 1), "+a"},
			{1300 * ms, one(50, 1), ""},
		},
		"a slow copy is taken when it goes on": {
			{0, one(50, 1), "again 100ms"},
			{1200 * ms, one(50, 1), "+a"},
			{5000 * ms, one(100, 1), "again 100ms"},
			{5100 * ms, one(100, 1), "+a"},
		},
		"removed, with a copy that was not complete": {
			{0, map[string]mark{"a": {size: 100, inode: 1}, "b": {size: 5, inode: 2}}, "+a again 100ms"},
			{10 * ms, nil, "-a -b"},
			{20 * ms, one(100, 1), "+a"},
		},
		"no regular file": {
			{0, map[string]mark{"a": {mode: fs.ModeNamedPipe}}, "+a"},
		},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			var now map[string]mark
			s := debouncer{files: map[string]*observation{}, whole: func(name string) bool { return now[name].size >= 100 }}
			for _, l := range looks {
				now = l.files
				ready, gone, again := s.look(time.Unix(0, 0).Add(l.at), l.files)
				var got []string
				for _, name := range ready {
					got = append(got, "+"+name)
				}
				slices.Sort(gone)
				for _, name := range gone {
					got = append(got, "-"+name)
				}
				if again > 0 {
					got = append(got, fmt.Sprint("again ", again))
				}
				require.Equal(t, l.want, strings.Join(got, " "), "at %v", l.at)
			}
		})
	}
}

func TestAModuleIsWholeWhereItsLastSectionEnds(t *testing.T) {
	module := guestbuild.Plugin(t, "sdk/go/drivertest/guestbuild/testdata/plugin")
	whole := func(b []byte) bool { return wholeModule(bytes.NewReader(b), int64(len(b))) }
	require.True(t, whole(module))
	require.True(t, whole([]byte("\x00asm\x01\x00\x00\x00")), "the empty module")
	require.True(t, whole([]byte("\x00asm\x0d\x00\x01\x00")), "a component is recognised by the loader")
	for cut := 1; cut < len(module); cut += 1 + len(module)/997 {
		if whole(module[:len(module)-cut]) {
			require.Contains(t, sectionEnds(module), len(module)-cut)
		}
	}
	require.False(t, whole(nil))
	require.False(t, whole([]byte("\x00asm")))
	require.False(t, whole(append(slices.Clone(module), 0)))
	require.False(t, whole([]byte("not a module at all")))
	require.False(t, whole(make([]byte, 1<<16)), "a file that was made large first")
	require.False(t, whole(append([]byte("\x00asm\x01\x00\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 16)...)))
}

// sectionEnds lists where a module could be cut and still look whole.
func sectionEnds(module []byte) []int {
	var ends []int
	for at := 8; at <= len(module); {
		ends = append(ends, at)
		if at == len(module) {
			break
		}
		size, shift, n := 0, 0, 1
		for {
			b := module[at+n]
			size |= int(b&0x7f) << shift
			shift, n = shift+7, n+1
			if b < 0x80 {
				break
			}
		}
		at += n + size
	}
	return ends
}

func FuzzWholeModule(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x01x"))
	f.Fuzz(func(_ *testing.T, b []byte) { wholeModule(bytes.NewReader(b), int64(len(b))) })
}
