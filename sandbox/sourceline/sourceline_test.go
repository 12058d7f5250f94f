package sourceline_test

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox/sourceline"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// sections are a module's custom sections, by name.
func sections(t *testing.T, wasm []byte) map[string][]byte {
	t.Helper()
	m, err := wasmbin.Decode(wasm, wasmbin.DefaultLimits())
	require.NoError(t, err)
	found := map[string][]byte{}
	for _, c := range m.Customs {
		found[c.Name] = m.Content(c)
	}
	return found
}

// tellAll returns what the standard library reads: for each address the last row that begins there.
func tellAll(t *testing.T, s map[string][]byte) map[uint32]dwarf.LineEntry {
	t.Helper()
	d, err := dwarf.New(s[".debug_abbrev"], nil, nil, s[".debug_info"], s[".debug_line"], nil, s[".debug_ranges"], s[".debug_str"])
	require.NoError(t, err)
	for _, name := range []string{".debug_line_str", ".debug_addr", ".debug_str_offsets", ".debug_rnglists"} {
		require.NoError(t, d.AddSection(name, s[name]))
	}
	rows := map[uint32]dwarf.LineEntry{}
	for entries := d.Reader(); ; {
		unit, err := entries.Next()
		require.NoError(t, err)
		if unit == nil {
			return rows
		}
		entries.SkipChildren()
		lines, err := d.LineReader(unit)
		require.NoError(t, err)
		if lines == nil {
			continue
		}
		row, next := dwarf.LineEntry{EndSequence: true}, dwarf.LineEntry{}
		for {
			err := lines.Next(&next)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if !row.EndSequence && row.Address > 0 && row.Address <= math.MaxUint32 && row.Address < next.Address && row.Line > 0 {
				rows[uint32(row.Address)] = row
			}
			row = next
		}
	}
}

// clang compiles a C file with debug information.
func clang(t *testing.T, flags ...string) []byte {
	t.Helper()
	compiler, err := exec.LookPath("clang-14")
	if err != nil {
		guestbuild.Missing(t, "no clang: apt install clang-14 lld-14")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		append(flags, "-c", "-O2", "-mbulk-memory", "-o", filepath.Join(dir, "main.o"), "../../guest-examples/drivers/c-minimal/main.c"),
		{"-Wl,--no-entry", "-o", filepath.Join(dir, "main.wasm"), filepath.Join(dir, "main.o")},
	} {
		out, err := exec.Command(compiler, append([]string{"--target=wasm32-unknown-unknown", "-ffreestanding", "-nostdlib"}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "main.wasm"))
	require.NoError(t, err)
	return wasm
}

func TestLinesAreThoseThatTheStandardLibraryReads(t *testing.T) {
	for name, build := range map[string]func(t *testing.T) []byte{
		"zig": func(t *testing.T) []byte {
			return guestbuild.ZigPlugin(t, "guest-examples/drivers/zig-minimal", "sdk/zig")
		},
		"c, version 4": func(t *testing.T) []byte { return clang(t, "-gdwarf-4") },
		"c, version 5": func(t *testing.T) []byte { return clang(t, "-gdwarf-5") },
	} {
		t.Run(name, func(t *testing.T) {
			s := sections(t, build(t))
			want := tellAll(t, s)
			require.Greater(t, len(want), 200)
			var addresses []uint32
			for address := range want {
				addresses = append(addresses, address)
			}
			tables := sourceline.Tables{Line: s[".debug_line"], LineStr: s[".debug_line_str"], Str: s[".debug_str"]}
			for i, got := range tables.Find(addresses) {
				row := want[addresses[i]]
				file, line, _ := strings.Cut(got, ":")
				require.Equal(t, strconv.Itoa(row.Line), line, "%#x: %s", addresses[i], got)
				file = strings.TrimPrefix(file, "…")
				require.True(t, strings.HasSuffix(filepath.Clean(row.File.Name), strings.TrimLeft(filepath.Clean(file), "./")), "%s: %s", row.File.Name, got)
			}
		})
	}
}

// table is a line table of version 4, whose one file has the given name, with a row for line 7 from
// address 10 on, which ends at 20.
func table(name string) []byte {
	header := append([]byte{1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0}, name...)
	header = append(header, 0, 0, 0, 0, 0)
	b := binary.LittleEndian.AppendUint16(nil, 4)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(header))), header...)
	b = append(b, 0, 5, 2, 10, 0, 0, 0, 3, 6, 1, 2, 10, 0, 1, 1)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func TestALineHoldsFromItsRowToTheNext(t *testing.T) {
	tables := sourceline.Tables{Line: append(table("a.c"), table("b.c")[:20]...)}
	require.Equal(t, []string{"", "a.c:7", "a.c:7", "", ""}, tables.Find([]uint32{9, 10, 19, 20, 0}))
	require.Equal(t, []string{""}, sourceline.Tables{}.Find([]uint32{1}))
}

func TestTablesThatAreTooLargeAreNotRead(t *testing.T) {
	line := append(table("a.c"), make([]byte, sourceline.MaxTables)...)
	require.Equal(t, []string{"a.c:7"}, sourceline.Tables{Line: line[:sourceline.MaxTables]}.Find([]uint32{10}))
	require.Equal(t, []string{""}, sourceline.Tables{Line: line[:sourceline.MaxTables+1]}.Find([]uint32{10}))
}

func TestOfALongPathTheEndIsKept(t *testing.T) {
	long := strings.Repeat("d/", sourceline.MaxPath) + "a.c"
	at := func(n int) string { return long[len(long)-n:] }
	find := func(name string) string { return sourceline.Tables{Line: table(name)}.Find([]uint32{10})[0] }
	require.Equal(t, at(sourceline.MaxPath)+":7", find(at(sourceline.MaxPath)))
	require.Equal(t, "…"+at(sourceline.MaxPath-len("…"))+":7", find(at(sourceline.MaxPath+1)))
	require.Equal(t, "…"+at(sourceline.MaxPath-len("…"))+":7", find(long))
}

// A text that many entries name is not read for each of them.
func TestOneTextForAMillionFilesIsReadOnce(t *testing.T) {
	header := []byte{1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0x1f} // no directories; a path in .debug_line_str
	header = append(header, 0xff, 0xff, 0x3f)
	header = append(header, make([]byte, 4<<18)...)
	b := append(binary.LittleEndian.AppendUint16(nil, 5), 4, 0)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(header))), header...)
	b = append(b, 0, 5, 2, 10, 0, 0, 0, 3, 6, 1, 2, 10, 0, 1, 1)
	b = append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	texts := append(bytes.Repeat([]byte("x"), 8<<20), 0)
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() {
		require.Len(t, sourceline.Tables{Line: b, LineStr: texts}.Find([]uint32{10})[0], sourceline.MaxPath+len(":7"))
	}), 50.0)
}

func FuzzFind(f *testing.F) {
	f.Add(table("a.c"), []byte("d\x00f.c\x00"), []byte("d\x00"), uint32(10))
	v5 := []byte{45, 0, 0, 0, 5, 0, 4, 0, 30, 0, 0, 0, 1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0x1f, 1, 0, 0, 0, 0, 2, 1, 0x1f, 2, 0x0b, 1, 2, 0, 0, 0, 0}
	f.Add(append(v5, 0, 5, 2, 10, 0, 0, 0, 1, 2, 10, 0, 1, 1), []byte("d\x00f.c\x00"), []byte(""), uint32(12))
	f.Fuzz(func(t *testing.T, line, lineStr, str []byte, address uint32) {
		for _, got := range (sourceline.Tables{Line: line, LineStr: lineStr, Str: str}).Find([]uint32{address, 1, 0xffffffff}) {
			if len(got) > sourceline.MaxPath+len(":18446744073709551615") {
				t.Errorf("%d bytes: %q", len(got), got)
			}
		}
	})
}
