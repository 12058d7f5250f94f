package snapshot_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/snapshot"
)

const state = "the state of a control plane, which is long enough to be packed"

func written(t *testing.T) ([]byte, snapshot.Meta) {
	t.Helper()
	m := snapshot.Meta{ID: "1-2", Index: 7, Size: int64(len(state)), Created: time.Unix(1, 0).UTC(), Schema: 1, Jobs: 3}
	var b bytes.Buffer
	require.NoError(t, snapshot.Write(&b, m, func(w io.Writer) error { _, err := io.WriteString(w, state); return err }))
	m.Version = 1
	return b.Bytes(), m
}

func TestASnapshotIsReadAsItWasWritten(t *testing.T) {
	packed, m := written(t)
	var out bytes.Buffer
	got, err := snapshot.Read(bytes.NewReader(packed), &out)
	require.NoError(t, err)
	require.Equal(t, &m, got)
	require.Equal(t, state, out.String())
}

// TestASnapshotThatWasChangedIsRefused at whichever byte, unless it unpacks to the same, and
// cut wherever.
func TestASnapshotThatWasChangedIsRefused(t *testing.T) {
	packed, m := written(t)
	refused := 0
	for i := range packed {
		other := bytes.Clone(packed)
		other[i] ^= 0x10
		var out bytes.Buffer
		if got, err := snapshot.Read(bytes.NewReader(other), &out); err != nil {
			refused++
		} else {
			require.Equal(t, &m, got, "byte %d", i)
			require.Equal(t, state, out.String(), "byte %d", i)
		}
		_, err := snapshot.Read(bytes.NewReader(packed[:i]), io.Discard)
		require.Error(t, err, "cut at %d", i)
	}
	require.Greater(t, refused, len(packed)*9/10)
}

func TestOtherArchivesAreRefusedByName(t *testing.T) {
	for want, files := range map[string][][2]string{
		`"etc/passwd" is where meta.json has to be`:                               {{"etc/passwd", "root"}},
		"meta.json: it is of version 2, this program knows 1":                     {{"meta.json", `{"Version":2}`}},
		"meta.json: unexpected end of JSON input":                                 {{"meta.json", ""}},
		"meta.json is of 100000 bytes, at most 65536 are allowed":                 {{"meta.json", strings.Repeat(" ", 100_000)}},
		"state.bin is missing":                                                    {{"meta.json", `{"Version":1}`}},
		"its SHA-256 sums are not those of its parts: it was changed, or damaged": {{"meta.json", `{"Version":1}`}, {"state.bin", "x"}, {"SHA256SUMS", "0000  state.bin\n"}},
	} {
		var b bytes.Buffer
		packed := gzip.NewWriter(&b)
		archive := tar.NewWriter(packed)
		for _, f := range files {
			require.NoError(t, archive.WriteHeader(&tar.Header{Name: f[0], Size: int64(len(f[1]))}))
			_, err := io.WriteString(archive, f[1])
			require.NoError(t, err)
		}
		require.NoError(t, archive.Close())
		require.NoError(t, packed.Close())
		_, err := snapshot.Read(&b, io.Discard)
		require.EqualError(t, err, "snapshot: "+want)
	}
}
