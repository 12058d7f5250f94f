package main

import (
	"bytes"
	"encoding/json"
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

	nomads := write(t, filepath.Join(t.TempDir(), "nomads.hcl"), "ports {\n  rpc = 4647\n}\n")
	code, out, errs = offline("config validate", nomads)
	require.Zero(t, code)
	require.Equal(t, "Configuration is valid!\n", out)
	require.Equal(t, "Warning: "+nomads+":2,3: ports.rpc has no effect: the agent listens for HTTP only\n", errs)
}

// Nomad's flags are over the files, and under our own.
func TestAnAgentTakesNomadsFlags(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "node.hcl"), "name = \"file\"\nregion = \"north\"\nenable_syslog = true\n")
	n := startAgent(t, binary, "-dev", "-config", file, "-node", "attic", "-dc=cellar", "-meta", "a=b", "-meta", "c=d", "-bind", "192.0.2.1", "-server", "-client=true", "-retry-max=3")
	var self struct {
		Name, Datacenter string
		Meta             map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(n.out(t, "node", "status", "-self", "-json")), &self))
	require.Equal(t, "attic", self.Name)
	require.Equal(t, "cellar", self.Datacenter)
	require.Equal(t, map[string]string{"a": "b", "c": "d"}, self.Meta)
	log := n.log.String()
	require.Contains(t, log, "configuration: "+file+":3,1: enable_syslog has no effect: ")
	require.Contains(t, log, "configuration: -retry-max: server.retry_max has no effect: ")

	r := command(t, "", "agent", "-dev", "-retry-join=192.0.2.1")
	wants(t, r, 1, "-retry-join: server.retry_join cannot be done: an agent is no server of a cluster: leave this out for a single server, or have client.servers join others")
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
