package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	mainPID = "systemctl show -p MainPID --value wasmnode"
	longJob = `job "long" {
  group "long" {
    task "long" {
      driver = "raw_exec"
      config {
        command = "/usr/bin/sleep"
        args    = ["86399"]
      }
    }
  }
}
`
	rawExec = `plugin "raw_exec" {
  grant {
    process { commands = ["/usr/bin/sleep"] }
  }
}
`
)

// packages are one kind of them, and the commands that have them come and go.
type packages struct {
	file                     string // below the directory of what is published
	install, replace, remove string // the first two with a file behind them
	start                    string // of the node, unless its installation starts it
	compile                  string // what the package came with, unless its installation does
	version                  string
}

var (
	debs = packages{"wasmnode_*_amd64.deb", "dpkg -i", "dpkg -i", "dpkg -r wasmnode", "true", "true", "dpkg-query -W -f '${Version}' wasmnode"}
	rpms = packages{"wasmnode-*.x86_64.rpm", "rpm -i --nodeps", "rpm -U --nodeps --oldpackage", "rpm -e wasmnode",
		"systemctl is-enabled wasmnode; systemctl start wasmnode", "systemctl start wasmnode-compile", "rpm -q wasmnode"}
)

// laterVersion is of a commit after this one's, which has changed what is stored.
const laterVersion = "99.0.0"

// later makes the packages of that version.
func later(t *testing.T) (dir string) {
	t.Helper()
	_, flags := published(t)
	copied, out := copyOfTree(t), filepath.Join(t.TempDir(), "later")
	for _, path := range []string{"state/bolt.go", "controlplane/standalone/controlplane.go"} {
		at := filepath.Join(copied, path)
		now := read(t, copied, path)
		newer := strings.Replace(now, "const SchemaVersion = 1\n", "const SchemaVersion = 2\n", 1)
		require.NotEqual(t, now, newer, "it says otherwise which schema it is")
		require.NoError(t, os.WriteFile(at, []byte(newer), 0o600))
	}
	require.NoError(t, run(append(append([]string{"-root", copied, "-out", out}, flags...), "-arch", "amd64", "-version", laterVersion)))
	return out
}

// TestPackagesComeAndGo is the life of a node on a machine with systemd: installed, used, upgraded,
// not downgraded, crashed, removed and installed again, from packages of both kinds.
func TestPackagesComeAndGo(t *testing.T) {
	all := newMachine(t, later(t)+":/later")
	before := all.files()
	for _, kind := range []struct {
		name string
		packages
		end func(m *machine)
	}{
		{"deb", debs, (*machine).purges},
		{"rpm", rpms, func(m *machine) { m.do("rpm -e wasmnode; rm -r /etc/wasmnode /var/lib/wasmnode") }},
	} {
		require.True(t, t.Run(kind.name, func(t *testing.T) {
			m := &machine{t: t, leader: all.leader}
			compiled := m.compiled()
			m.do(kind.install + " /dist/" + kind.file + "; " + kind.start)
			m.runsPackagedJob()
			m.do(kind.compile)
			m.usesWhatIsCompiled(compiled)
			pid := m.runsLongJob()
			m.upgrades(kind.packages, pid)
			m.refusesOlder(kind.packages, pid)
			m.crashes(pid)
			m.comesBack(kind.packages)
			kind.end(m)
			require.Empty(t, m.left(), "no process, mount or cgroup")
			require.Equal(t, before, m.files())
		}))
	}
}

// runsPackagedJob does what the page of installation says.
func (m *machine) runsPackagedJob() {
	m.t.Helper()
	m.await("systemctl is-active wasmnode", "active")
	m.await("systemctl show -p StatusText --value wasmnode", "the API answers at unix:///run/wasmnode/api.sock")
	require.Equal(m.t, "srw-rw---- root wasmnode", m.do("stat -c '%A %U %G' /run/wasmnode/api.sock"))
	require.Contains(m.t, m.do("MANWIDTH=80 man wasmnode-job-run"), "wasmnode job run [options]")
	m.do("cp /usr/share/wasmnode/plugins/wasi.wasm /usr/share/wasmnode/plugins/raw_exec.wasm /var/lib/wasmnode/plugins/")
	m.do("cat > /etc/wasmnode/raw_exec.hcl <<'E'\n" + rawExec + "E\nsystemctl reload wasmnode")
	m.await("wasmnode node status -self | tr -s ' '", "raw_exec true true")
	m.await("wasmnode node status -self | tr -s ' '", "wasi true true")
	m.do("wasmnode job run -detach /usr/share/wasmnode/jobs/hello.nomad.hcl")
	m.await("wasmnode alloc logs -job hello", `"word": "the"`)
}

const task = "pgrep -f '^/usr/bin/sleep 86399'"

// runsLongJob returns the process of a task that lasts.
func (m *machine) runsLongJob() (pid string) {
	m.t.Helper()
	m.do("cat > /root/long.hcl <<'E'\n" + longJob + "E\nwasmnode job run -detach /root/long.hcl; rm /root/long.hcl")
	m.await(task, "\n")
	return m.do(task)
}

// upgrades has the later version take over, and its data with it.
func (m *machine) upgrades(p packages, pid string) {
	m.t.Helper()
	agent, compiled := m.do(mainPID), m.compiled()
	m.do(p.replace + " /later/" + p.file)
	require.Contains(m.t, m.do(p.version), laterVersion)
	require.Contains(m.t, m.do("wasmnode version"), laterVersion)
	require.NotEqual(m.t, agent, m.do(mainPID), "the agent is the new one")
	m.await("wasmnode job status long", "running")
	require.Equal(m.t, pid, m.do(task), "and its task the old")
	m.do("test -e /var/lib/wasmnode/client.db.schema-1; ls /var/lib/wasmnode/server*.db.schema-1 /var/lib/wasmnode/server/*.db.schema-1 2>/dev/null | grep -q .")
	m.usesWhatIsCompiled(compiled)
}

// compiled is how often the unit has compiled what the package came with: systemd itself forgets a
// unit that has ended.
func (m *machine) compiled() string {
	m.t.Helper()
	return m.do("journalctl -u wasmnode-compile -o cat | grep -c '^8 plugins compiled, in /var/lib/wasmnode/cache$' || true")
}

// usesWhatIsCompiled waits for the unit that compiles what the package came with, and has the agent
// load a plugin that it has not seen: with the code that is kept, and no other.
func (m *machine) usesWhatIsCompiled(before string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return m.compiled() != before }, 2*time.Minute, 100*time.Millisecond)
	m.await("systemctl show -p ActiveState --value wasmnode-compile", "inactive")
	require.Equal(m.t, "success", m.do("systemctl show -p Result --value wasmnode-compile"))
	const code = "ls -i /var/lib/wasmnode/cache/*/seal" // which is another file where it was compiled again
	kept := m.do(code)
	m.do("wasmnode plugin compile -data-dir=/var/lib/wasmnode /usr/share/wasmnode/plugins")
	require.Equal(m.t, kept, m.do(code))
	m.do("cp /usr/share/wasmnode/plugins/exec.wasm /var/lib/wasmnode/plugins/")
	m.await("wasmnode plugin status", "/exec.wasm: needs grant")
	require.Equal(m.t, kept, m.do(code))
	m.do("rm /var/lib/wasmnode/plugins/exec.wasm")
	m.await("wasmnode plugin status | grep -c /exec.wasm || true", "0")
}

// refusesOlder tries to go back to a version that knows nothing of the data.
func (m *machine) refusesOlder(p packages, pid string) {
	m.t.Helper()
	agent := m.do(mainPID)
	out, err := m.try(p.replace + " /dist/" + p.file)
	require.Error(m.t, err)
	require.Contains(m.t, string(out), "it is of schema 2, and this one knows up to 1")
	require.Contains(m.t, m.do(p.version), laterVersion)
	require.Equal(m.t, agent, m.do(mainPID))
	require.Equal(m.t, pid, m.do(task), "nothing has happened")
}

// crashes ends the agent as the watchdog does.
func (m *machine) crashes(pid string) {
	m.t.Helper()
	agent := m.do(mainPID)
	m.do("kill -ABRT " + agent)
	require.Eventually(m.t, func() bool {
		now, err := m.try("systemctl is-active -q wasmnode && " + mainPID)
		return err == nil && strings.TrimSpace(string(now)) != agent
	}, time.Minute, 100*time.Millisecond)
	m.await("wasmnode job status long", "running")
	require.Equal(m.t, pid, m.do(task))
}

// comesBack removes the package, tries an older one on the data that stayed, and goes on with it.
func (m *machine) comesBack(p packages) {
	m.t.Helper()
	m.do(p.remove)
	require.Empty(m.t, m.left(), "no process, mount or cgroup")
	m.do("test -e /var/lib/wasmnode/client.db; test ! -e /run/wasmnode; test ! -e /usr/bin/wasmnode")

	_, err := m.try(p.install + " /dist/" + p.file + " && " + p.start)
	require.Error(m.t, err)
	require.Contains(m.t, m.do("journalctl -u wasmnode"), "its schema version is 2, this program knows up to 1")
	m.do(p.remove)
	m.do(p.install + " /later/" + p.file + "; " + p.start)
	m.await("systemctl is-active wasmnode", "active")
	m.await("wasmnode job status long", "running")
	m.await(task, "\n")
}

// purges answers the question with no, and then with yes.
func (m *machine) purges() {
	m.t.Helper()
	purge := func(answer string) {
		m.t.Helper()
		require.Contains(m.t, m.do("echo "+answer+" | DEBIAN_FRONTEND=teletype dpkg --purge wasmnode"), "Delete all that this node keeps")
		require.Empty(m.t, m.left(), "no process, mount or cgroup")
	}
	purge("no")
	require.Equal(m.t, "/etc/wasmnode/raw_exec.hcl", m.do("find /etc/wasmnode -type f"), "what nobody but the operator knows of")
	m.do("test -e /var/lib/wasmnode/client.db; dpkg -i /later/" + debs.file)
	m.await("wasmnode job status long", "running")
	m.do("rm /etc/wasmnode/raw_exec.hcl")
	purge("yes")
}

// TestAHardenedNodeRunsPrograms tries the unit with all that is closed in it.
func TestAHardenedNodeRunsPrograms(t *testing.T) {
	m := newMachine(t)
	m.do("mkdir -p /etc/systemd/system/wasmnode.service.d; touch /etc/systemd/system/wasmnode.service.d/a.conf")
	m.do("dpkg -i /dist/wasmnode_*_amd64.deb")
	m.do("cp /usr/share/wasmnode/hardened.conf /etc/systemd/system/wasmnode.service.d/; systemctl daemon-reload; systemctl restart wasmnode")
	m.do("cp /usr/share/wasmnode/plugins/wasi.wasm /var/lib/wasmnode/plugins/")
	m.await("wasmnode node status -self | tr -s ' '", "wasi true true")
	m.do("wasmnode job run -detach /usr/share/wasmnode/jobs/hello.nomad.hcl")
	m.await("wasmnode alloc logs -job hello", `"word": "the"`)
	m.do("systemctl restart wasmnode")
	m.await("wasmnode alloc status -json $(wasmnode job allocs -t '{{(index . 0).ID}}' hello)", `"complete"`)
}

// TestAMachineLacksThings has the unit see no cgroups, no user namespaces and no plugins for
// networks: it starts, doctor names each, and WASI programs run.
func TestAMachineLacksThings(t *testing.T) {
	m := newMachine(t)
	m.do(`mkdir -p /etc/systemd/system/wasmnode.service.d
		echo 0 > /root/none
		printf '[Service]\nInaccessiblePaths=/sys/fs/cgroup\nBindReadOnlyPaths=/root/none:/proc/sys/user/max_user_namespaces\n' > /etc/systemd/system/wasmnode.service.d/less.conf`)
	m.do("dpkg -i /dist/wasmnode_*_amd64.deb")
	m.do("printf 'client {\n  cni_path = \"/none\"\n}\n' > /etc/wasmnode/less.hcl; systemctl restart wasmnode")
	require.Equal(t, "active", m.do("systemctl is-active wasmnode"))
	told := m.do("nsenter -t $(" + mainPID + ") -m wasmnode doctor | tr -s ' '")
	for _, want := range []string{
		"warning machine cgroups no cgroup v2 hierarchy can be written to", "warning machine isolation the driver exec does not work",
		"warning machine userns there are no user namespaces", "warning machine cni groups with a network of mode bridge find no place",
		"ok machine platform", "ok data data_dir", "ok node agent it answers",
	} {
		require.Contains(t, told, want)
	}
	m.do("cp /usr/share/wasmnode/plugins/wasi.wasm /var/lib/wasmnode/plugins/")
	m.await("wasmnode node status -self | tr -s ' '", "wasi true true")
	m.do("wasmnode job run -detach /usr/share/wasmnode/jobs/hello.nomad.hcl")
	m.await("wasmnode alloc logs -job hello", `"word": "the"`)
}
