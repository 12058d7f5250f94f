package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeRoot is a machine's file system with programs that only say how they were called, so that
// what the scripts of packages do is tried also where no systemd can be started.
type fakeRoot struct {
	t   *testing.T
	dir string
	env []string
}

func newFakeRoot(t *testing.T, files map[string]string) *fakeRoot {
	t.Helper()
	f := &fakeRoot{t: t, dir: put(t, files)}
	for _, name := range []string{"systemctl", "deb-systemd-invoke", "systemd-sysusers", "systemd-tmpfiles", "wasmnode"} {
		f.program("bin/"+name, `echo "$(basename "$0") $*" >> "`+f.dir+`/calls"`)
	}
	for _, dir := range []string{"run/systemd/system", "proc", "usr/share"} {
		require.NoError(t, os.MkdirAll(filepath.Join(f.dir, dir), 0o755))
	}
	return f
}

func (f *fakeRoot) program(path, script string) {
	f.t.Helper()
	at := filepath.Join(f.dir, path)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(f.t, os.WriteFile(at, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

// run runs a script of the packages below the root, as dpkg or rpm does, and returns the calls
// that it made and what it said.
func (f *fakeRoot) run(name string, args ...string) (calls []string, said string, err error) {
	f.t.Helper()
	var moved []string
	for _, top := range []string{"/usr/bin/", "/usr/sbin/", "/usr/share/", "/run/", "/etc/", "/var/lib/", "/proc/"} {
		moved = append(moved, top, f.dir+top)
	}
	script := strings.NewReplacer(moved...).Replace(filled(name, trial))
	cmd := exec.CommandContext(f.t.Context(), "sh", append([]string{"-c", script, name}, args...)...)
	cmd.Env = append([]string{"PATH=" + f.dir + "/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, f.env...)
	out, err := cmd.CombinedOutput()
	made, errRead := os.ReadFile(filepath.Join(f.dir, "calls"))
	if !errors.Is(errRead, fs.ErrNotExist) {
		require.NoError(f.t, errRead)
		require.NoError(f.t, os.Remove(filepath.Join(f.dir, "calls")))
		calls = strings.Split(strings.TrimSpace(strings.ReplaceAll(string(made), f.dir, "")), "\n")
	}
	return calls, string(out), err
}

// TestScriptsOfPackagesDoWhatTheirMomentNeeds: each script, at each moment at which dpkg or rpm runs
// it. What is not called matters as much: an upgrade ends no task, and rpm starts nothing of itself.
func TestScriptsOfPackagesDoWhatTheirMomentNeeds(t *testing.T) {
	made := []string{"systemd-sysusers wasmnode.conf", "systemd-tmpfiles --create wasmnode.conf", "systemctl daemon-reload"}
	then := func(calls ...string) []string { return append(append([]string(nil), made...), calls...) }
	const restart, compile = "systemctl try-restart wasmnode.service", "systemctl start --no-block wasmnode-compile.service"
	ended := []string{"systemctl stop wasmnode-compile.service", "systemctl disable --now wasmnode.service", "wasmnode operator end-tasks -data-dir=/var/lib/wasmnode"}
	for name, c := range map[string]struct {
		script string
		args   []string
		calls  []string
	}{
		"dpkg, installed":             {"postinst", []string{"configure", ""}, then("systemctl enable wasmnode.service", "deb-systemd-invoke start wasmnode.service", compile)},
		"dpkg, upgraded":              {"postinst", []string{"configure", "0.1.0"}, then(restart, compile)},
		"dpkg, an upgrade given up":   {"postinst", []string{"abort-upgrade", "0.1.0"}, nil},
		"rpm, installed":              {"postinst", []string{"1"}, then("systemctl preset wasmnode.service", compile)},
		"rpm, upgraded":               {"postinst", []string{"2"}, then(restart, compile)},
		"dpkg, the older one goes":    {"prerm", []string{"upgrade", "99.0.0"}, nil},
		"rpm, the older one goes":     {"prerm", []string{"1"}, nil},
		"dpkg, removed":               {"prerm", []string{"remove"}, ended},
		"rpm, removed":                {"prerm", []string{"0"}, ended},
		"dpkg, the older one is gone": {"postrm", []string{"upgrade", "99.0.0"}, nil},
		"rpm, the older one is gone":  {"postrm", []string{"1"}, nil},
		"dpkg, it is gone":            {"postrm", []string{"remove"}, []string{"systemctl daemon-reload"}},
		"rpm, it is gone":             {"postrm", []string{"0"}, []string{"systemctl daemon-reload"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRoot(t, map[string]string{"var/lib/wasmnode/client.db": "data"})
			calls, said, err := f.run(c.script, c.args...)
			require.NoError(t, err, said)
			require.Equal(t, c.calls, calls)
			require.Empty(t, said)
			require.FileExists(t, filepath.Join(f.dir, "var/lib/wasmnode/client.db"), "data stays")
		})
	}
}

func TestScriptsStartNothingWhereThatIsForbidden(t *testing.T) {
	for _, how := range [][]string{{"configure", "0.1.0"}, {"2"}} {
		f := newFakeRoot(t, nil)
		f.program("usr/sbin/policy-rc.d", "exit 101")
		calls, said, err := f.run("postinst", how...)
		require.NoError(t, err, said)
		require.Equal(t, []string{"systemd-sysusers wasmnode.conf", "systemd-tmpfiles --create wasmnode.conf", "systemctl daemon-reload"}, calls)
	}
}

func TestScriptsDoWithoutSystemd(t *testing.T) {
	for script, args := range map[string][]string{"postinst": {"configure", ""}, "prerm": {"remove"}, "postrm": {"remove"}} {
		f := newFakeRoot(t, map[string]string{"etc/group": "wasmnode:x:999:\n"})
		require.NoError(t, os.RemoveAll(filepath.Join(f.dir, "run/systemd")))
		calls, said, err := f.run(script, args...)
		require.NoError(t, err, said)
		require.NotContains(t, strings.Join(calls, "\n"), "systemctl")
	}
}

// TestAPackageWhoseTasksDoNotEndStays: dpkg and rpm keep what they cannot remove.
func TestAPackageWhoseTasksDoNotEndStays(t *testing.T) {
	for _, how := range []string{"remove", "0"} {
		f := newFakeRoot(t, nil)
		f.program("bin/wasmnode", "exit 1")
		_, said, err := f.run("prerm", how)
		require.Error(t, err)
		require.Contains(t, said, "Tasks of this node may still run")
	}
}

// debconf answers the question of purge, which is not asked where the answer was given before.
const debconf = "db_stop() { :; }\ndb_fset() { forgotten=1; }\ndb_input() { [ -z \"$forgotten\" ] || kill $$; }\ndb_go() { :; }\ndb_purge() { :; }\ndb_get() { RET=$ANSWER; }\n"

func TestOnlyAPurgeThatWasSaidYesToDeletes(t *testing.T) {
	for name, c := range map[string]struct {
		how, answer, debconf, mounts string
		deleted                      bool
		says                         string
	}{
		"removed by dpkg":    {"remove", "true", debconf, "", false, ""},
		"removed by rpm":     {"0", "true", debconf, "", false, ""},
		"purged, no":         {"purge", "false", debconf, "", false, "is still in"},
		"purged, not asked":  {"purge", "", "", "", false, "is still in"},
		"purged, yes":        {"purge", "true", debconf, "", true, ""},
		"something is there": {"purge", "true", debconf, "/dev/sdb ROOT/var/lib/wasmnode/volumes ext4 rw 0 0\n", false, "volumes is mounted there"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeRoot(t, map[string]string{"var/lib/wasmnode/client.db": "data", "run/wasmnode/installing": ""})
			f.env = []string{"ANSWER=" + c.answer}
			for path, text := range map[string]string{"usr/share/debconf/confmodule": c.debconf, "proc/mounts": c.mounts} {
				if at := filepath.Join(f.dir, path); text != "" {
					require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
					require.NoError(t, os.WriteFile(at, []byte(strings.ReplaceAll(text, "ROOT", f.dir)), 0o600))
				}
			}
			_, said, err := f.run("postrm", c.how)
			require.Equal(t, c.mounts != "", err != nil, said)
			require.Contains(t, said, c.says)
			require.NoDirExists(t, filepath.Join(f.dir, "run/wasmnode"))
			if c.deleted {
				require.NoDirExists(t, filepath.Join(f.dir, "var/lib/wasmnode"))
			} else {
				require.FileExists(t, filepath.Join(f.dir, "var/lib/wasmnode/client.db"))
			}
		})
	}
}
