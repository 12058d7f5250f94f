package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlocksMayStandOnOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.hcl")
	require.NoError(t, os.WriteFile(path, []byte(`ports { http = 4747 }
plugin "wasi" { grant { wasm { directories = ["/srv", "/opt"] max_programs = 3 enabled = true } } } # why
plugin "mock_driver" { config { attributes = { a = "}", b = "{" } } }
client { meta = {
    rack = "{a}"
  }
  reserved { cpu = 100 }
}
`), 0o600))
	c := Default()
	require.NoError(t, c.Load(path))
	require.Equal(t, 4747, c.HTTPPort)
	require.Equal(t, []string{"/srv", "/opt"}, c.Plugins["wasi"].Grant.Wasm.Directories)
	require.Equal(t, 3, c.Plugins["wasi"].Grant.Wasm.MaxPrograms)
	require.Equal(t, map[string]any{"a": "}", "b": "{"}, c.Plugins["mock_driver"].Config["attributes"])
	require.Equal(t, "{a}", c.Client.Meta["rack"])
	require.Equal(t, 100, c.Client.Reserved.CPU)
}

func TestFaultsOfOneLineBlocksHaveTheirPlaceInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.hcl")
	require.NoError(t, os.WriteFile(path, []byte("bind_addr = \"::1\"\nplugin \"wasi\" { grant { wasm { direktories = [] } } }\n"), 0o600))
	c := Default()
	err := c.Load(path)
	require.ErrorContains(t, err, path+":2,32: Unsupported argument")
	require.ErrorContains(t, err, `"directories"`)
}
