package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePartsOfOthersAreAsTheyWerePublished compares the files of packages of npm, which are in
// directories of their own, with the digests of their list.
func TestThePartsOfOthersAreAsTheyWerePublished(t *testing.T) {
	b, err := os.ReadFile("parts.json")
	require.NoError(t, err)
	var parts []struct {
		Name, Version, Dir string
		Files              map[string]string
	}
	require.NoError(t, json.Unmarshal(b, &parts))
	listed := map[string]string{}
	for _, p := range parts {
		require.Contains(t, p.Files, "LICENSE", p.Name)
		for name, sum := range p.Files {
			listed[filepath.Join("static", p.Dir, name)] = sum
		}
	}
	found := map[string]string{}
	require.NoError(t, fs.WalkDir(static, "static", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(at) == "static" {
			return err
		}
		content, err := static.ReadFile(at)
		sum := sha256.Sum256(content)
		found[at] = hex.EncodeToString(sum[:])
		return err
	}))
	require.Equal(t, listed, found)
}
