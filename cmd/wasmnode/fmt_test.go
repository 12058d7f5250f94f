package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// offline runs a command that needs no node.
func offline(command string, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = commands(meta{ui: ui{out: &o, err: &e}, running: new(running)})[command].Run(args)
	return code, o.String(), e.String()
}

func TestFilesAreLaidOut(t *testing.T) {
	dir := t.TempDir()
	const rough, neat = "a=1\nb = {\nc=2\n}\n", "a = 1\nb = {\n  c = 2\n}\n"
	file := write(t, filepath.Join(dir, "a.hcl"), rough)
	text := write(t, filepath.Join(dir, "a.txt"), rough)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "b"), 0o700))
	below := write(t, filepath.Join(dir, "b", "b.nomad"), rough)

	code, out, _ := offline("fmt", "-check", dir)
	require.Equal(t, 1, code)
	require.Equal(t, file+"\n", out)
	require.Equal(t, rough, read(t, file), "nothing is changed")
	code, _, _ = offline("fmt", "-write=false", "-list=false", dir)
	require.Zero(t, code)
	require.Equal(t, rough, read(t, file))
	code, out, _ = offline("fmt", dir)
	require.Zero(t, code)
	require.Equal(t, file+"\n", out)
	require.Equal(t, []string{neat, rough, rough}, []string{read(t, file), read(t, text), read(t, below)})
	_, out, _ = offline("fmt", "-recursive", dir)
	require.Equal(t, below+"\n", out)
	code, _, _ = offline("fmt", "-check", "-recursive", dir)
	require.Zero(t, code)

	broken := write(t, filepath.Join(dir, "broken.hcl"), "}{")
	for path, want := range map[string]string{
		broken:                     broken + ":1,1-2: Argument or block definition required",
		text:                       "only .nomad and .hcl files",
		filepath.Join(dir, "none"): "No file or directory at ",
	} {
		code, _, errs := offline("fmt", path)
		require.Equal(t, 1, code)
		require.Contains(t, errs, want)
	}
	require.Equal(t, "}{", read(t, broken))
}

func TestConfigurationIsCheckedWithoutAnAgent(t *testing.T) {
	good := write(t, filepath.Join(t.TempDir(), "good.hcl"), "log_level = \"debug\"\n")
	bad := write(t, filepath.Join(t.TempDir(), "bad.hcl"), "colour = 1\n")
	code, out, _ := offline("config validate", good)
	require.Zero(t, code)
	require.Equal(t, "Configuration is valid!\n", out)
	code, _, errs := offline("config validate", good, bad)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "Configuration is invalid\nError: configuration: "+bad+":1,1: Unsupported argument")
}

func TestTheExampleOfAJobIsOne(t *testing.T) {
	n := startRawExec(t)
	for _, args := range [][]string{{}, {"-short"}} {
		file := filepath.Join(t.TempDir(), "job.nomad.hcl")
		code, out, _ := offline("job init", append(args, file)...)
		require.Zero(t, code)
		require.Equal(t, "Example job file written to "+file+"\n", out)
		code, _, errs := offline("job init", file)
		require.Equal(t, 1, code)
		require.Equal(t, "Error: Job '"+file+"' already exists\n", errs)
		code, _, _ = offline("fmt", "-check", file)
		require.Zero(t, code)
		n.out(t, "job", "validate", file)
	}
}
