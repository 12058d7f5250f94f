package volumes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const volumeID = "11111111-2222-3333-4444-555555555555"

// newManager returns a manager with plugins, which are scripts of a shell by their names.
func newManager(t *testing.T, plugins map[string]string) *Manager {
	dir := t.TempDir()
	cfg := Config{Dir: filepath.Join(dir, "volumes"), PluginDir: filepath.Join(dir, "plugins"), NodePool: "pool", Logger: hclog.NewNullLogger()}
	require.NoError(t, os.Mkdir(cfg.PluginDir, 0o700))
	for name, script := range plugins {
		require.NoError(t, os.WriteFile(filepath.Join(cfg.PluginDir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	return New(cfg)
}

func volume(plugin string, parameters map[string]string) *nomad.HostVolume {
	return &nomad.HostVolume{
		ID: volumeID, Name: "data", Namespace: "default", NodeID: "node", PluginID: plugin, Parameters: parameters,
		RequestedCapacityMinBytes: 5, RequestedCapacityMaxBytes: 10,
	}
}

func TestMkdirMakesWhatItWasAskedForAndNothingElse(t *testing.T) {
	m := newManager(t, nil)
	for name, c := range map[string]struct {
		parameters map[string]string
		mode       os.FileMode
		fault      string
	}{
		"nothing":      {nil, 0o700, ""},
		"a mode":       {map[string]string{"mode": "0751"}, 0o751, ""},
		"all bits":     {map[string]string{"mode": "777"}, 0o777, ""},
		"too many":     {map[string]string{"mode": "1000"}, 0, `invalid value for "mode": "1000" is no number from 0 to 777`},
		"no octal":     {map[string]string{"mode": "rwx"}, 0, `invalid value for "mode"`},
		"no number":    {map[string]string{"uid": "root"}, 0, `invalid value for "uid": "root" is no number from 0 to 2147483647`},
		"too high":     {map[string]string{"gid": "2147483648"}, 0, `invalid value for "gid"`},
		"another name": {map[string]string{"owner": "x"}, 0, `unknown mkdir parameter: "owner": it has mode, uid and gid`},
	} {
		t.Run(name, func(t *testing.T) {
			v := volume(mkdirPlugin, c.parameters)
			made, err := m.Create(t.Context(), v)
			if c.fault != "" {
				require.ErrorContains(t, err, `host volume plugin "mkdir" cannot make volume "data": `+c.fault)
				require.NoDirExists(t, filepath.Join(m.cfg.Dir, volumeID))
				return
			}
			require.NoError(t, err)
			require.Equal(t, structs.MadeVolume{Path: filepath.Join(m.cfg.Dir, volumeID)}, made)
			info, err := os.Stat(made.Path)
			require.NoError(t, err)
			require.Equal(t, c.mode, info.Mode().Perm())
			require.NoError(t, os.WriteFile(filepath.Join(made.Path, "kept"), nil, 0o600))
			again, err := m.Create(t.Context(), v)
			require.NoError(t, err)
			require.Equal(t, made, again)
			require.FileExists(t, filepath.Join(made.Path, "kept"))
			for range 2 {
				require.NoError(t, m.Delete(t.Context(), v))
				left, err := os.ReadDir(m.cfg.Dir)
				require.NoError(t, err)
				require.Empty(t, left)
			}
		})
	}
}

// An agent that was killed before the directory was as it is to be leaves none of its name.
func TestMkdirGoesOnWhereItWasKilled(t *testing.T) {
	m := newManager(t, nil)
	begun := filepath.Join(m.cfg.Dir, "."+volumeID)
	require.NoError(t, os.MkdirAll(filepath.Join(begun, "x"), 0o700))
	made, err := m.Create(t.Context(), volume(mkdirPlugin, map[string]string{"mode": "0755"}))
	require.NoError(t, err)
	require.NoDirExists(t, begun)
	require.NoDirExists(t, filepath.Join(made.Path, "x"))
}

// A disk that is not mounted is no reason to begin without data.
func TestMkdirMakesNothingAgainThatIsGone(t *testing.T) {
	m := newManager(t, nil)
	v := volume(mkdirPlugin, nil)
	made, err := m.Create(t.Context(), v)
	require.NoError(t, err)
	v.HostPath = made.Path
	again, err := m.Create(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, made, again)
	require.NoError(t, os.Remove(made.Path))
	_, err = m.Create(t.Context(), v)
	require.ErrorContains(t, err, made.Path+" was made and is gone: bring it back, or have it made anew with volume create -id")
	require.NoDirExists(t, made.Path)
	v.HostPath = "" // as of who asks for it anew
	_, err = m.Create(t.Context(), v)
	require.NoError(t, err)
}

func TestMkdirGivesTheDirectoryToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	m := newManager(t, nil)
	made, err := m.Create(t.Context(), volume(mkdirPlugin, map[string]string{"uid": "1234", "gid": "2345"}))
	require.NoError(t, err)
	info, err := os.Stat(made.Path)
	require.NoError(t, err)
	is := info.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{1234, 2345}, []uint32{is.Uid, is.Gid})
}

func TestAPluginIsToldAllOfAVolume(t *testing.T) {
	m := newManager(t, map[string]string{"p": `env | grep ^DHV_ | sort > "$0.$1"
mkdir -p "$DHV_VOLUMES_DIR/mine"
echo '{"path": "'$DHV_VOLUMES_DIR'/mine", "bytes": 7}'`})
	v := volume("p", map[string]string{"a": "b"})
	made, err := m.Create(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, structs.MadeVolume{Path: filepath.Join(m.cfg.Dir, "mine"), CapacityBytes: 7}, made)
	told := func(operation string, more ...string) {
		b, err := os.ReadFile(filepath.Join(m.cfg.PluginDir, "p."+operation))
		require.NoError(t, err)
		require.ElementsMatch(t, append(more,
			"DHV_NAMESPACE=default", "DHV_NODE_ID=node", "DHV_NODE_POOL=pool", "DHV_OPERATION="+operation, `DHV_PARAMETERS={"a":"b"}`,
			"DHV_PLUGIN_DIR="+m.cfg.PluginDir, "DHV_VOLUMES_DIR="+m.cfg.Dir, "DHV_VOLUME_ID="+volumeID, "DHV_VOLUME_NAME=data",
		), strings.Split(strings.TrimSpace(string(b)), "\n"))
	}
	told("create", "DHV_CAPACITY_MIN_BYTES=5", "DHV_CAPACITY_MAX_BYTES=10")
	v.HostPath = made.Path
	require.NoError(t, m.Delete(t.Context(), v))
	told("delete", "DHV_CREATED_PATH="+made.Path)
}

func TestWhatAPluginGetsWrongIsOneLine(t *testing.T) {
	answer := func(json string) string { return "echo '" + json + "'" }
	for name, c := range map[string]struct{ script, fault string }{
		"garbage":         {"printf 'gar\\033[1m\\nbage'", "its answer is not the JSON that it should be: gar [1m bage"},
		"nothing":         {"true", "its answer is not the JSON that it should be: it is empty"},
		"no path":         {answer(`{"bytes": 5}`), "its answer has no path"},
		"less than none":  {answer(`{"path": "/", "bytes": -1}`), "its answer has -1 bytes"},
		"an error":        {answer(`{"error": "no room"}`) + "; exit 3", "exit status 3: no room"},
		"a complaint":     {"echo first >&2; echo last >&2; exit 1", "exit status 1: last"},
		"silence":         {"exit 1", "exit status 1"},
		"elsewhere":       {answer(`{"path": "/etc"}`), "/etc is not below client.host_volumes_dir, which is DIR"},
		"the whole":       {`echo '{"path": "'$DHV_VOLUMES_DIR'"}'`, "DIR is not below client.host_volumes_dir, which is DIR"},
		"beside":          {`mkdir -p $DHV_VOLUMES_DIR-2; echo '{"path": "'$DHV_VOLUMES_DIR-2'"}'`, "DIR-2 is not below client.host_volumes_dir"},
		"by a link":       {`ln -s /etc $DHV_VOLUMES_DIR/link; echo '{"path": "'$DHV_VOLUMES_DIR/link'"}'`, "DIR/link is not below client.host_volumes_dir"},
		"a file":          {`touch $DHV_VOLUMES_DIR/file; echo '{"path": "'$DHV_VOLUMES_DIR/file'"}'`, "DIR/file is no directory"},
		"what is not":     {answer(`{"path": "/none"}`), "/none: no such file or directory"},
		"not from a root": {answer(`{"path": "x"}`), `"x" is no absolute path`},
		"without an end":  {"yes", "it answered with more than 65536 bytes"},
		"one too many":    {fmt.Sprintf("head -c %d /dev/zero", maxOutput+1), "it answered with more than 65536 bytes"},
		"not to run":      {"", "fork/exec"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, map[string]string{"p": c.script})
			if name == "not to run" {
				require.NoError(t, os.WriteFile(filepath.Join(m.cfg.PluginDir, "p"), []byte("#!/none"), 0o700))
			}
			_, err := m.Create(t.Context(), volume("p", nil))
			require.Error(t, err)
			require.Contains(t, err.Error(), strings.ReplaceAll(c.fault, "DIR", m.cfg.Dir))
			require.True(t, strings.HasPrefix(err.Error(), `host volume plugin "p" `), err)
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "\033")
		})
	}
}

func TestAnAnswerOfTheMostBytesIsTaken(t *testing.T) {
	m := newManager(t, map[string]string{"p": fmt.Sprintf(`mkdir -p $DHV_VOLUMES_DIR/v
begin='{"path": "'$DHV_VOLUMES_DIR/v'"}'
printf '%%-%ds' "$begin"`, maxOutput)})
	_, err := m.Create(t.Context(), volume("p", nil))
	require.NoError(t, err)
}

// What a plugin leaves running, such as a file system of its own, does not hold its answer.
func TestWhatAPluginLeavesRunningMayGoOn(t *testing.T) {
	m := newManager(t, map[string]string{"p": `mkdir -p $DHV_VOLUMES_DIR/v
echo '{"path": "'$DHV_VOLUMES_DIR/v'"}'
while [ -e "$0" ]; do sleep 0.01; done &`})
	_, err := m.Create(t.Context(), volume("p", nil))
	require.NoError(t, err)
}

func TestWhatAPluginSaysIsCut(t *testing.T) {
	require.Equal(t, strings.Repeat("x", maxComplaint), excerpt([]byte(strings.Repeat("x", maxComplaint)+"\n")))
	require.Equal(t, strings.Repeat("x", maxComplaint)+"…", excerpt([]byte(strings.Repeat("x", maxComplaint+1))))
	require.Equal(t, "a  b", excerpt([]byte("a\x00\xffb")))
}

// What has a volume's ID for a name is removed with all that is in it.
func TestAnIDThatIsNoNameOfADirectoryIsRefused(t *testing.T) {
	m := newManager(t, nil)
	for _, id := range []string{"", ".", "..", "../x", "/x", "a/b", ".a"} {
		v := volume(mkdirPlugin, nil)
		v.ID = id
		_, err := m.Create(t.Context(), v)
		require.ErrorContains(t, err, "cannot be the name of its directory", id)
		require.ErrorContains(t, m.Delete(t.Context(), v), "cannot be the name of its directory", id)
	}
}

// A plugin that hangs ends with all that it has started.
func TestAPluginThatHangsIsEnded(t *testing.T) {
	m := newManager(t, map[string]string{"p": `echo $$ > "$0.pid"; sleep 1000 & wait`})
	p := external{name: "p", cfg: m.cfg, running: m.running}
	_, err := p.run(t.Context(), 100*time.Millisecond, "create", nil)
	require.EqualError(t, err, "it did not answer within 100ms")
	b, err := os.ReadFile(filepath.Join(m.cfg.PluginDir, "p.pid"))
	if os.IsNotExist(err) {
		return // it had no time to begin
	}
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(b), &pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(-pid, 0) == syscall.ESRCH || zombies(pid) }, 10*time.Second, time.Millisecond)
}

// zombies reports whether nothing of a process group runs, and what is left is not ours to reap.
func zombies(group int) bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range dirs {
		b, _ := os.ReadFile(path) // it may be gone
		_, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var parent, of int
		if _, err := fmt.Sscan(rest, &state, &parent, &of); err == nil && of == group && state != "Z" {
			return false
		}
	}
	return true
}

func TestWhoWaitsForAPluginGoesOnWithItsContext(t *testing.T) {
	m := newManager(t, map[string]string{"p": "sleep 1000"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Create(ctx, volume("p", nil))
	require.ErrorContains(t, err, context.Canceled.Error())
	for range pluginsAtOnce {
		m.running <- struct{}{}
	}
	_, err = m.Create(ctx, volume("p", nil))
	require.ErrorContains(t, err, context.Canceled.Error())
}

func TestPluginsAreThoseThatAnswer(t *testing.T) {
	m := newManager(t, map[string]string{
		"good": `echo '{"version": "1.2"}'`, "good.sh": `echo '{"version": "2.0.0-rc1"}'`, "garbage": "echo x", "fails": "exit 1", "no-version": `echo '{}'`,
		"mkdir": `echo '{"version": "9.9.9"}'`, "odd name": `echo '{"version": "1.0.0"}'`,
	})
	require.NoError(t, os.WriteFile(filepath.Join(m.cfg.PluginDir, "README"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(m.cfg.PluginDir, "dir"), 0o700))
	require.Equal(t, map[string]string{"mkdir": "0.0.1", "good": "1.2.0", "good.sh": "2.0.0-rc1"}, m.Plugins(t.Context()))
	require.Equal(t, map[string]string{"mkdir": "0.0.1"}, New(Config{PluginDir: "/none", Logger: hclog.NewNullLogger()}).Plugins(t.Context()))
	for name, fault := range map[string]string{
		"none": `there is no host volume plugin "none" in `, "../p": `there is no host volume plugin "../p" in `, "": `there is no host volume plugin "" in `,
		"dir": `there is no host volume plugin "dir" in `, "README": `host volume plugin "README" in ` + m.cfg.PluginDir + ` is not executable`,
	} {
		_, err := m.Create(t.Context(), volume(name, nil))
		require.ErrorContains(t, err, fault)
	}
}

func TestWhatIsRegisteredHasToBeThereAndStays(t *testing.T) {
	m := newManager(t, nil)
	v := volume("", nil)
	v.HostPath = filepath.Join(m.cfg.Dir, "mine")
	_, err := m.Find(v)
	require.ErrorContains(t, err, `volume "data": host_path: `)
	require.NoError(t, os.MkdirAll(v.HostPath, 0o700))
	require.NoError(t, os.Symlink("mine", filepath.Join(m.cfg.Dir, "link")))
	v.HostPath = filepath.Join(m.cfg.Dir, "link")
	made, err := m.Find(v)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(m.cfg.Dir, "mine"), made.Path, "what is mounted has no links")
	require.NoError(t, m.Delete(t.Context(), v))
	require.DirExists(t, made.Path)
}
