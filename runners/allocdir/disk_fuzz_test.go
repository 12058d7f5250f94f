package allocdir

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What entries of drawn archives are named and where their links lead.
var (
	diskNames = []string{
		"alloc/data", "alloc/data/", "alloc/data/a", "alloc/data/a/b", "alloc/data/a/b/c", "alloc/data/l", "alloc/data/l/m", "alloc/data/..x",
		"web/local", "web/local/a", "web/local/a/b", "web/local/l", "web/local/l/m", "db/local/a", "web/secrets/a", "../a", "alloc/data/../a", "alloc",
	}
	diskLinks = []string{"a", "a/..", "..", "../..", "../../..", "../../web/local", "../local/l", "l/..", "l/../..", "/etc", "/", ".", "../data/l/../../..", ""}
	diskTypes = []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar, tar.TypeReg, tar.TypeSymlink}
)

// drawnDisk is an archive of what a fuzzer has drawn: four bytes an entry.
func drawnDisk(t *testing.T, drawn []byte) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for ; len(drawn) >= 4; drawn = drawn[4:] {
		h := &tar.Header{
			Typeflag: diskTypes[int(drawn[0])%len(diskTypes)], Name: diskNames[int(drawn[1])%len(diskNames)],
			Mode: int64(drawn[3]) << 4, Uid: os.Getuid(), Gid: os.Getgid(), Format: tar.FormatGNU,
		}
		if h.Typeflag != tar.TypeDir {
			h.Name = strings.TrimSuffix(h.Name, "/")
		}
		var content []byte
		switch h.Typeflag {
		case tar.TypeReg:
			content = bytes.Repeat([]byte{'x'}, int(drawn[2])*100)
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname = diskLinks[int(drawn[2])%len(diskLinks)]
		}
		h.Size = int64(len(content))
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// FuzzADiskStaysInItsPlace unpacks drawn archives: each is taken whole or not at all, and writes, and
// leads, nowhere but into its allocation's directory.
func FuzzADiskStaysInItsPlace(f *testing.F) {
	f.Add([]byte{0, 2, 10, 0, 1, 3, 0, 255, 2, 9, 0, 0})
	f.Add([]byte{2, 5, 2, 0, 2, 2, 7, 0, 0, 6, 1, 0}) // links through links, and a file behind one
	f.Add([]byte{0, 4, 255, 255, 0, 2, 1, 0, 3, 5, 1, 0})
	f.Add([]byte{2, 2, 3, 0, 2, 5, 1, 0})
	f.Fuzz(func(t *testing.T, drawn []byte) {
		drawn = drawn[:min(len(drawn), 40)]
		d := built(t, "web")
		beside := listOf(t, filepath.Dir(d.root), d.root)
		_, err := d.Unpack(t.Context(), bytes.NewReader(drawnDisk(t, drawn)), []string{"web"}, 1)
		require.Equal(t, beside, listOf(t, filepath.Dir(d.root), d.root), "beside the allocation's directory")
		if err != nil {
			require.ErrorIs(t, err, ErrDisk)
			require.False(t, d.Holds([]string{"web"}), "a part of it was taken")
		}
		require.NoDirExists(t, filepath.Join(d.root, diskPart))
		require.NoDirExists(t, filepath.Join(d.root, diskWhole))
		require.NoError(t, filepath.WalkDir(d.root, func(name string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := e.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice|fs.ModeNamedPipe), name)
			if info.Mode()&fs.ModeSymlink != 0 {
				requireInside(t, d.root, name)
			}
			return nil
		}))
		require.NoError(t, d.Destroy())
		require.NoDirExists(t, d.root)
	})
}

// requireInside follows a link as the kernel does, and takes one that begins at the root for the task's own.
func requireInside(t *testing.T, root, link string) {
	at, rest := filepath.Dir(link), []string{filepath.Base(link)}
	for followed := 0; len(rest) > 0 && followed < 40; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		require.True(t, next == root || strings.HasPrefix(next, root+"/"), "%s leads to %s", link, next)
		to, err := os.Readlink(next)
		switch {
		case err != nil:
			at = next
		case path.IsAbs(to):
			return
		default:
			followed++
			rest = append(strings.Split(to, "/"), rest...)
		}
	}
}

// listOf is what is in a directory, but for what is below one of them.
func listOf(t *testing.T, dir, without string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if name == without {
			return fs.SkipDir
		}
		names = append(names, name)
		return nil
	}))
	return names
}
