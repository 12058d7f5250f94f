package allocdir

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func snapshotOf(t *testing.T, d *Dir) (archive []byte, leftOut int) {
	t.Helper()
	var out bytes.Buffer
	leftOut, err := d.Snapshot(t.Context(), &out)
	require.NoError(t, err)
	return out.Bytes(), leftOut
}

func TestADiskGoesToAnotherNodeAndIsTheSameThere(t *testing.T) {
	from, to := built(t, "web", "db", "old"), built(t)
	write(t, from, "alloc/data/d", "data")
	write(t, from, "alloc/logs/web.stdout.0", "log")
	write(t, from, "web/local/l", strings.Repeat("long ", 100_000))
	write(t, from, "web/secrets/s", "secret")
	write(t, from, "old/local/o", "of a task that there is no more")
	deep := filepath.Join(from.Path(), "web/local", strings.Repeat("a/", 120))
	require.NoError(t, os.MkdirAll(deep, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(deep, strings.Repeat("n", 200)), []byte("x"), 0o640))
	for target, name := range map[string]string{"l": "web/local/inside", "../../alloc/data/d": "web/local/beside", "/local/l": "web/local/absolute"} {
		require.NoError(t, os.Symlink(target, filepath.Join(from.Path(), name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(from.Data(), "pipe"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(from.Data(), "closed"), 0o500))

	archive, leftOut := snapshotOf(t, from)
	require.Equal(t, 1, leftOut, "the pipe")
	leftOut, err := to.Unpack(t.Context(), bytes.NewReader(archive), []string{"web", "db"}, 1)
	require.NoError(t, err)
	require.Zero(t, leftOut)
	require.Equal(t, "data", read(t, to, "alloc/data/d"))
	require.Equal(t, read(t, from, "web/local/l"), read(t, to, "web/local/l"))
	require.Equal(t, "data", read(t, to, "web/local/../../alloc/data/d"))
	require.FileExists(t, filepath.Join(to.Path(), "web/local", strings.Repeat("a/", 120), strings.Repeat("n", 200)))
	require.DirExists(t, filepath.Join(to.Data(), "closed"))
	for name, target := range map[string]string{"inside": "l", "beside": "../../alloc/data/d", "absolute": "/local/l"} {
		got, err := os.Readlink(filepath.Join(to.Path(), "web/local", name))
		require.NoError(t, err)
		require.Equal(t, target, got)
	}
	for _, absent := range []string{"old", "web/secrets", "alloc/logs/web.stdout.0", "alloc/data/pipe", diskWhole, diskPart} {
		require.NoFileExists(t, filepath.Join(to.Path(), absent))
		require.NoDirExists(t, filepath.Join(to.Path(), absent))
	}
	for name, mode := range map[string]fs.FileMode{"alloc/data": 0o777, "web": 0o711, "web/local": 0o777, "db/local": 0o777, "web/local/a": 0o750, "alloc/data/d": 0o600} {
		info, err := os.Stat(filepath.Join(to.Path(), name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	require.True(t, to.Holds([]string{"web"}))
	require.False(t, built(t, "web").Holds([]string{"web"}))
}

func read(t *testing.T, d *Dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(d.Path(), name))
	require.NoError(t, err)
	return string(b)
}

// packed is an archive; an entry's content is its header's PAXRecords["content"].
func packed(t *testing.T, entries ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		content := h.PAXRecords["content"]
		h.PAXRecords = nil
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		h.Size = int64(len(content))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := io.WriteString(w, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func with(content string) map[string]string { return map[string]string{"content": content} }

func TestAHostileDiskIsNotTaken(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.Mkdir(outside, 0o777))
	whole := packed(t, &tar.Header{Name: "alloc/data/f", PAXRecords: with(strings.Repeat("x", 10_000))})
	for want, archive := range map[string][]byte{
		`"../x" in it would be written outside the allocation's directory`:            packed(t, &tar.Header{Name: "../x"}),
		`"/etc/x" in it would be written outside the allocation's directory`:          packed(t, &tar.Header{Name: "/etc/x"}),
		`"alloc/data/../../../x" in it would be written outside`:                      packed(t, &tar.Header{Name: "alloc/data/../../../x"}),
		`"alloc/data/./x" in it would be written outside`:                             packed(t, &tar.Header{Name: "alloc/data/./x"}),
		`"alloc/logs/x" in it is of no disk`:                                          packed(t, &tar.Header{Name: "alloc/logs/x"}),
		`"alloc/.disk/x" in it is of no disk`:                                         packed(t, &tar.Header{Name: "alloc/.disk/x"}),
		`"web/secrets/x" in it is of no disk`:                                         packed(t, &tar.Header{Name: "web/secrets/x"}),
		`"alloc/local/x" in it is of no disk`:                                         packed(t, &tar.Header{Name: "alloc/local/x"}),
		`"web" in it is of no disk`:                                                   packed(t, &tar.Header{Name: "web"}),
		`"web/local" in it is no directory`:                                           packed(t, &tar.Header{Name: "web/local"}),
		`"alloc/data" in it is no directory`:                                          packed(t, &tar.Header{Name: "alloc/data", Typeflag: tar.TypeSymlink, Linkname: "x"}),
		`the link "alloc/data/l" in it leads out of the allocation's directory`:       packed(t, &tar.Header{Name: "alloc/data/l", Typeflag: tar.TypeSymlink, Linkname: "../../../x"}),
		`the link "alloc/data/e" in it leads out of the allocation's directory`:       packed(t, &tar.Header{Name: "alloc/data/e", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("a", maxPath+1)}),
		`"data/l" in it is a link or a file, and a directory`:                         packed(t, &tar.Header{Name: "alloc/data/l", Typeflag: tar.TypeSymlink, Linkname: outside}, &tar.Header{Name: "alloc/data/l/x"}),
		`"data/f" in it is a link or a file, and a directory`:                         packed(t, &tar.Header{Name: "alloc/data/f"}, &tar.Header{Name: "alloc/data/f/x"}),
		`"data/d" is a directory and a file in it`:                                    packed(t, &tar.Header{Name: "alloc/data/d/", Typeflag: tar.TypeDir, Mode: 0o755}, &tar.Header{Name: "alloc/data/d"}),
		`it has more than 10 files`:                                                   packed(t, many(11)...),
		`it has more than 0 MiB`:                                                      packed(t, &tar.Header{Name: "alloc/data/f", PAXRecords: with(strings.Repeat("x", 20_000+8*entryBytes))}, &tar.Header{Name: "alloc/data/g", PAXRecords: with("x")}),
		`it does not end`:                                                             packed(t, &tar.Header{Name: "other/local/f", PAXRecords: with(strings.Repeat("x", 200_000))}),
		`its directories are more than 128 deep`:                                      packed(t, &tar.Header{Name: "alloc/data/" + strings.Repeat("d/", 129) + "f"}),
		`its node could not send it: "Error snapshotting: gone"`:                      packed(t, &tar.Header{Name: "NOMAD-a1-ERROR.log", PAXRecords: with("Error snapshotting: gone")}),
		`it breaks off: unexpected EOF`:                                               whole[:2000],
		`it is no whole archive: archive/tar: invalid tar header`:                     []byte(strings.Repeat("no archive ", 100)),
		`"alloc/data/n" in it belongs to nobody`:                                      packed(t, &tar.Header{Name: "alloc/data/n", Uid: -1, Format: tar.FormatGNU}),
		`"alloc/data/h\\h" in it would be written outside the allocation's directory`: packed(t, &tar.Header{Name: `alloc/data/h\h`}),
	} {
		d := built(t, "web")
		_, err := d.unpack(t.Context(), bytes.NewReader(archive), []string{"web"}, room{20_000 + 10*entryBytes, 10})
		require.ErrorIs(t, err, ErrDisk, want)
		require.ErrorContains(t, err, want)
		_, err = d.Unpack(t.Context(), bytes.NewReader([]byte("no archive")), []string{"web"}, 1)
		require.ErrorIs(t, err, ErrDisk)
		require.False(t, d.Holds([]string{"web"}))
		require.NoDirExists(t, filepath.Join(d.Shared(), diskPart))
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

func many(n int) (entries []*tar.Header) {
	for range n {
		entries = append(entries, &tar.Header{Name: "alloc/data/f"})
	}
	return entries
}

// Directories that are only in the names of others count, too.
func TestADiskOfTooManyDirectories(t *testing.T) {
	d := built(t, "web")
	_, err := d.unpack(t.Context(), bytes.NewReader(packed(t, &tar.Header{Name: "alloc/data/a/b/c/f"})), []string{"web"}, room{1 << 20, 3})
	require.ErrorIs(t, err, ErrDisk)
	require.ErrorContains(t, err, "more than 3 files")
	_, err = d.unpack(t.Context(), bytes.NewReader(packed(t, &tar.Header{Name: "alloc/data/a/b/c/f"})), []string{"web"}, room{1 << 20, 4})
	require.NoError(t, err)
}

// At the bounds themselves a disk is taken.
func TestADiskOfTheMostThatItMayHave(t *testing.T) {
	d := built(t, "web")
	archive := packed(t, append(many(8), &tar.Header{Name: "alloc/data/g", PAXRecords: with(strings.Repeat("x", 19_999))}, &tar.Header{Name: "alloc/data/f", PAXRecords: with("y")})...)
	_, err := d.unpack(t.Context(), bytes.NewReader(archive), []string{"web"}, room{20_000 + 10*entryBytes, 10})
	require.NoError(t, err)
	was, err := d.Settle([]string{"web"})
	require.NoError(t, err)
	require.True(t, was)
	require.Equal(t, "y", read(t, d, "alloc/data/f"), "the last of a name counts")
}

func TestDevicesAndLinksThroughLinksOfADiskAreLeftOutAndNoFileRunsAsItsOwner(t *testing.T) {
	d := built(t, "web")
	archive := packed(t,
		&tar.Header{Name: "alloc/data/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		&tar.Header{Name: "alloc/data/pipe", Typeflag: tar.TypeFifo},
		&tar.Header{Name: "alloc/data/again", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		&tar.Header{Name: "alloc/data/up", Typeflag: tar.TypeSymlink, Linkname: "../.."},
		&tar.Header{Name: "alloc/data/out", Typeflag: tar.TypeSymlink, Linkname: "up/.."},
		&tar.Header{Name: "alloc/data/sudo", Mode: 0o4755, Uid: os.Getuid(), Gid: os.Getgid()})
	leftOut, err := d.Unpack(t.Context(), bytes.NewReader(archive), []string{"web"}, 1)
	require.NoError(t, err)
	require.Equal(t, 4, leftOut)
	require.NoError(t, os.Remove(filepath.Join(d.Data(), "up")))
	entries, err := os.ReadDir(d.Data())
	require.NoError(t, err)
	require.Len(t, entries, 1)
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())
}

func TestAMoveOfADiskThatAKillInterruptsIsGoneOnWith(t *testing.T) {
	d := built(t, "web")
	archive := packed(t, &tar.Header{Name: "alloc/data/d", PAXRecords: with("d")}, &tar.Header{Name: "web/local/l", PAXRecords: with("l")})
	_, err := d.unpack(t.Context(), bytes.NewReader(archive), []string{"web"}, room{1 << 20, 10})
	require.NoError(t, err)
	// Killed after the first rename.
	require.NoError(t, rename(filepath.Join(d.root, diskWhole, DataName), d.Data()))
	was, err := d.Settle([]string{"web"})
	require.NoError(t, err)
	require.True(t, was)
	require.Equal(t, "dl", read(t, d, "alloc/data/d")+read(t, d, "web/local/l"))
	was, err = d.Settle([]string{"web"})
	require.NoError(t, err)
	require.False(t, was)
}

// What a task puts beside its data is not taken for a disk: it may lead to the directories of others.
func TestATaskPlantsNoDisk(t *testing.T) {
	d, others := built(t, "web"), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(others, "web"), 0o700))
	planted := filepath.Join(d.Shared(), diskWhole)
	require.NoError(t, os.Mkdir(planted, 0o700))
	require.NoError(t, os.Symlink(others, filepath.Join(planted, localsName)))
	was, err := d.Settle([]string{"web"})
	require.NoError(t, err)
	require.False(t, was)
	require.DirExists(t, filepath.Join(others, "web"))
	for _, name := range []string{diskWhole, diskPart} {
		_, err := d.Task(name)
		require.ErrorIs(t, err, ErrName, "no task's directory is one")
	}
}

func TestWhatFailsOfASnapshotIsSaidInIt(t *testing.T) {
	d := built(t, "web")
	deep := filepath.Join(d.Data(), strings.Repeat("d/", maxDiskDepth+2))
	require.NoError(t, os.MkdirAll(deep, 0o755))
	var out bytes.Buffer
	_, err := d.Snapshot(t.Context(), &out)
	require.EqualError(t, err, "allocdir: snapshot: its directories are more than 128 deep")
	_, err = built(t).Unpack(t.Context(), &out, nil, 1)
	require.ErrorContains(t, err, `its node could not send it: "Error snapshotting: its directories are more than 128 deep"`)

	// What breaks off is not taken for a whole one.
	for _, cut := range []error{errors.New("gone"), context.Canceled} {
		whole := built(t, "web")
		write(t, whole, "alloc/data/f", strings.Repeat("x", 100_000))
		var half bytes.Buffer
		_, err = whole.Snapshot(t.Context(), &failing{&half, 50_000, cut})
		require.ErrorIs(t, err, cut)
		require.ErrorIs(t, err, ErrTorn)
		_, err = built(t).Unpack(t.Context(), &half, nil, 1)
		require.ErrorIs(t, err, ErrDisk)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Snapshot(ctx, io.Discard)
	require.ErrorIs(t, err, context.Canceled)
	_, err = d.Unpack(ctx, &out, nil, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// failing takes some of what is written.
type failing struct {
	io.Writer
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return f.Writer.Write(p)
}

// Secrets are no part of a disk, whatever links a task makes.
func TestASnapshotHasNoSecrets(t *testing.T) {
	d := built(t, "web", "db")
	write(t, d, "web/secrets/token", "secret")
	require.NoError(t, os.Symlink("../secrets/token", filepath.Join(d.Path(), "web/local/token")))
	require.NoError(t, os.Remove(filepath.Join(d.Path(), "db/local")))
	require.NoError(t, os.Symlink("../web/secrets", filepath.Join(d.Path(), "db/local")))
	archive, _ := snapshotOf(t, d)
	require.NotContains(t, string(archive), "secret\x00")
	to := built(t, "web", "db")
	_, err := to.Unpack(t.Context(), bytes.NewReader(archive), []string{"web", "db"}, 1)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(to.Path(), "db/local/token"))
}
