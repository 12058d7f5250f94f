package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/workload"
)

const (
	hostNetwork      = wasmnodev1.ProcessNetwork_PROCESS_NETWORK_HOST
	noNetwork        = wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NONE
	namespaceNetwork = wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NAMESPACE
)

// startGranted is startProcess with all kinds of grants.
func startGranted(t *testing.T, w *world, scope *host.TaskScope, grants host.Grants, r *wasmnodev1.ProcessStartRequest) []byte {
	t.Helper()
	p := w.ready(t, processGuest(r, abi.OpDriverStartTask).Bytes(), grants)
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	return out
}

// networkAt is what the kernel calls the network namespace at a path.
func networkAt(t *testing.T, path string) string {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(path, &stat))
	return fmt.Sprintf("net:[%d]", stat.Ino)
}

func TestAProcessBeginsInTheNetworkThatItsDriverNames(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	dir := t.TempDir()
	for _, name := range []string{"group", "vpn"} {
		namespaced(t, filepath.Join(dir, name))
	}
	group, vpn, own := filepath.Join(dir, "group"), filepath.Join(dir, "vpn"), networkAt(t, "/proc/thread-self/ns/net")
	const ask = `readlink /proc/self/ns/net; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \n'; exec 3<>/dev/null`
	for name, c := range map[string]struct {
		network   wasmnodev1.ProcessNetwork
		namespace string
		grants    host.Grants
		group     string
		want      string // empty: it is nobody's
	}{
		"the group's":                 {group: group, want: networkAt(t, group)},
		"the node's, as the group's":  {network: hostNetwork, want: own},
		"the node's, granted":         {network: hostNetwork, group: group, grants: host.Grants{Process: host.ProcessGrant{HostNetwork: true}}, want: own},
		"one that is granted":         {network: namespaceNetwork, namespace: vpn, group: group, grants: host.Grants{Net: host.NetGrant{Namespaces: []string{dir}}}, want: networkAt(t, vpn)},
		"the group's own by its path": {network: namespaceNetwork, namespace: group, group: group, want: networkAt(t, group)},
		"none":                        {network: noNetwork, group: group},
		"none, in the node's":         {network: noNetwork},
	} {
		for _, isolation := range []workload.Isolation{workload.IsolationNone, workload.IsolationFull} {
			t.Run(name+", isolation "+string(isolation), func(t *testing.T) {
				w, scope, r := newWorld(t, host.Limits{}), isolatedScope(t), shell(ask)
				if isolation == workload.IsolationFull {
					r = isolatedShell(t, ask)
				}
				if c.group != "" {
					scope.Config.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: c.group}
				}
				r.Network, r.NetworkNamespace = c.network, c.namespace
				c.grants.Process.Commands, c.grants.Process.Users = []string{"*"}, []string{"*"}
				code, message := decodeAnswer(t, startGranted(t, w, scope, c.grants, r))
				require.Zero(t, code, string(message))
				exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
				require.NoError(t, err)
				require.Zero(t, exit.ExitCode)
				stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
				require.NoError(t, err)
				network, interfaces, _ := strings.Cut(strings.TrimSpace(string(stdout)), "\n")
				if c.want != "" {
					require.Equal(t, c.want, network)
					return
				}
				require.NotContains(t, []string{own, networkAt(t, group), networkAt(t, vpn)}, network)
				require.Equal(t, "lo", interfaces)
			})
		}
	}
}

func TestAProcessWithoutANetworkReachesItself(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	r := shell(`cat /proc/net/fib_trie | grep -c "127.0.0.1"`) // the kernel adds it to an interface that is up
	r.Network = noNetwork
	require.NotEqual(t, "0", w.stdoutOf(t, scope, host.ProcessGrant{Commands: []string{"*"}}, r))
}

// TestAProcessIsInNoNetworkThatWasNotGranted also asks for what is no namespace at all: nothing of
// it is opened, since opening a pipe waits for whoever writes to it.
func TestAProcessIsInNoNetworkThatWasNotGranted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	top := t.TempDir()
	dir, other := filepath.Join(top, "granted"), filepath.Join(top, "other")
	for _, d := range []string{dir, other} {
		require.NoError(t, os.Mkdir(d, 0o700))
		namespaced(t, filepath.Join(d, "net"))
	}
	require.NoError(t, os.Symlink(filepath.Join(other, "net"), filepath.Join(dir, "link")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.NoError(t, unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(5, 2)))) // /dev/ptmx: opening it makes a terminal
	for name, source := range map[string]string{"own": "/proc/thread-self/ns/net", "names": "/proc/self/ns/uts"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, unix.Mount(source, path, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	by := func(path string) func(*wasmnodev1.ProcessStartRequest) {
		return func(r *wasmnodev1.ProcessStartRequest) { r.Network, r.NetworkNamespace = namespaceNetwork, path }
	}
	in := func(name string) func(*wasmnodev1.ProcessStartRequest) { return by(filepath.Join(dir, name)) }
	at := func(n wasmnodev1.ProcessNetwork) func(*wasmnodev1.ProcessStartRequest) {
		return func(r *wasmnodev1.ProcessStartRequest) { r.Network = n }
	}
	any := host.ProcessGrant{Commands: []string{"*"}}
	for name, c := range map[string]struct {
		grant  host.ProcessGrant
		change func(*wasmnodev1.ProcessStartRequest)
		code   abi.Code
		says   string
	}{
		"the node's": {any, at(hostNetwork), abi.PermissionDenied,
			`the node's network, for a process whose task has its own, is not granted: add plugin "test" { grant { process { host_network = true } } }`},
		"the node's, where isolation is the least": {host.ProcessGrant{Commands: []string{"*"}, Isolation: workload.IsolationFull}, func(r *wasmnodev1.ProcessStartRequest) {
			r.Network, r.Isolation = hostNetwork, wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL
		}, abi.PermissionDenied, `is refused by isolation = "full", with which it cannot be granted`},
		"one elsewhere": {any, by(filepath.Join(other, "net")), abi.PermissionDenied,
			fmt.Sprintf(`is not granted: add plugin "test" { grant { net { namespaces = [%q] } } }`, other)},
		"a link to elsewhere":   {any, in("link"), abi.PermissionDenied, fmt.Sprintf("namespaces = [%q]", other)},
		"by a detour":           {any, by(dir + "/../other/net"), abi.PermissionDenied, "is not granted"},
		"of a process":          {any, by("/proc/self/ns/net"), abi.PermissionDenied, "is not granted"},
		"the directory":         {any, by(dir), abi.PermissionDenied, "is not granted"},
		"a pipe":                {any, in("pipe"), abi.InvalidArgument, "is no namespace"},
		"a device":              {any, in("device"), abi.InvalidArgument, "is no namespace"},
		"a file":                {any, in("file"), abi.InvalidArgument, "is no namespace"},
		"a namespace of names":  {any, in("names"), abi.InvalidArgument, "is no network namespace"},
		"the node's by a path":  {any, in("own"), abi.InvalidArgument, "is the node's own network"},
		"nothing":               {any, in("nothing"), abi.FailedPrecondition, "no such file"},
		"nothing elsewhere":     {any, by(filepath.Join(other, "nothing")), abi.PermissionDenied, fmt.Sprintf("namespaces = [%q]", other)},
		"a relative path":       {any, by("net"), abi.InvalidArgument, "is no absolute path"},
		"a path with a zero":    {any, by(dir + "/net\x00"), abi.InvalidArgument, "is no absolute path"},
		"a path with a control": {any, by("/\x1b[2J"), abi.PermissionDenied, `/\\u001b[2J`},
		"no path":               {any, at(namespaceNetwork), abi.InvalidArgument, "network_namespace goes with PROCESS_NETWORK_NAMESPACE"},
		"a path without": {any, func(r *wasmnodev1.ProcessStartRequest) { r.NetworkNamespace = filepath.Join(dir, "net") },
			abi.InvalidArgument, "network_namespace goes with PROCESS_NETWORK_NAMESPACE"},
		"of a later version": {any, at(99), abi.InvalidArgument, "unknown network 99"},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope, r := newWorld(t, host.Limits{}), taskScope(t), shell("exit 0")
			scope.Config.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: filepath.Join(dir, "net")}
			c.change(r)
			refused := answeredError(t, startGranted(t, w, scope, host.Grants{Process: c.grant, Net: host.NetGrant{Namespaces: []string{dir}}}, r))
			require.Equal(t, c.code, refused.Code, refused.Message)
			require.Contains(t, refused.Message, c.says)
			list, err := w.workloads.List(t.Context())
			require.NoError(t, err)
			require.Empty(t, list)
		})
	}
}

func TestTheNodesNetworkIsNotGrantedBesideAFloor(t *testing.T) {
	for _, floor := range []workload.Isolation{workload.IsolationFull, workload.IsolationPaths} {
		g := host.Grants{Process: host.ProcessGrant{Commands: []string{"*"}, Isolation: floor, HostNetwork: true}}
		require.ErrorContains(t, g.Validate(), fmt.Sprintf("grant.process.host_network: isolation = %q keeps processes in their tasks' networks", floor))
	}
	p := newWorld(t, host.Limits{}).ready(t, processGuest(nil).Bytes(), host.Grants{Process: host.ProcessGrant{Commands: []string{"/x"}, HostNetwork: true}, Net: host.NetGrant{Namespaces: []string{"/run/netns"}}})
	require.Contains(t, p.Granted(), "wasmnode:process/v1(commands:/x network:host namespace:/run/netns)")
}

func TestADriverChoosesAmongTheCoresThatItsTaskMayUse(t *testing.T) {
	all := "0"
	if runtime.NumCPU() > 1 {
		all = fmt.Sprint("0-", runtime.NumCPU()-1)
	}
	own := &wasmnodev1.Resources{MemoryBytes: 1, Cores: []uint32{1, 2}, Cpuset: "0-7"}
	free := &wasmnodev1.Resources{MemoryBytes: 1, Cpuset: "0,2-3"}
	for name, c := range map[string]struct {
		cpuset string
		task   *wasmnodev1.Resources
		code   abi.Code
		says   string
	}{
		"one":                      {"0", &wasmnodev1.Resources{Cpuset: all}, 0, ""},
		"all":                      {all, &wasmnodev1.Resources{Cpuset: all}, 0, ""},
		"its own":                  {"0", &wasmnodev1.Resources{Cores: []uint32{0}, Cpuset: all}, 0, ""},
		"as long as can be":        {strings.Repeat("0,", 511) + "00", &wasmnodev1.Resources{Cpuset: all}, 0, ""},
		"beside its own":           {"1-3", own, abi.InvalidArgument, `cpuset "1-3": the task may not use core 3: it may use 1-2`},
		"another's":                {"0-1", free, abi.InvalidArgument, `cpuset "0-1": the task may not use core 1: it may use 0,2-3`},
		"all that there could be":  {"0-1023", free, abi.InvalidArgument, "the task may not use core 1"},
		"one that the node lacks":  {"1023", &wasmnodev1.Resources{Cpuset: "0-1023"}, abi.InvalidArgument, "there is no core 1023"},
		"above the highest number": {"1024", free, abi.InvalidArgument, `"1024" is not within 0-1023`},
		"too long":                 {strings.Repeat("0,", 512) + "0", free, abi.InvalidArgument, "a cpuset of 1025 bytes, the limit is 1024"},
		"backwards":                {"3-2", free, abi.InvalidArgument, "is not within"},
		"negative":                 {"-1", free, abi.InvalidArgument, "neither a number nor a range"},
		"open":                     {"0-", free, abi.InvalidArgument, "neither a number nor a range"},
		"no numbers":               {"all", free, abi.InvalidArgument, "neither a number nor a range"},
		"blank":                    {" ", free, abi.InvalidArgument, "it has no number"},
		"in two lines":             {"0\x1b", free, abi.InvalidArgument, `cpuset "0\\u001b"`},
		"huge":                     {"0-99999999999999999999", free, abi.InvalidArgument, "neither a number nor a range"},
		"of an earlier version":    {"0", &wasmnodev1.Resources{}, abi.FailedPrecondition, "which cores the task may use is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope, r := newWorld(t, host.Limits{}), taskScope(t), shell("exit 0")
			scope.Config.Resources, r.Cpuset = c.task, c.cpuset
			out := startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r)
			if c.code == 0 {
				code, message := decodeAnswer(t, out)
				require.Zero(t, code, string(message))
				return
			}
			refused := answeredError(t, out)
			require.Equal(t, c.code, refused.Code, refused.Message)
			require.Contains(t, refused.Message, c.says)
		})
	}
}

func TestAProcessBeginsOnTheCoresThatItsDriverNames(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("with one processor there is nothing to choose")
	}
	seen := map[string]bool{}
	for _, cpuset := range []string{"", "0", "1"} {
		w, scope, r := newWorld(t, host.Limits{}), taskScope(t), shell(`grep Cpus_allowed_list /proc/self/status`)
		scope.Config.Resources.Cpuset, r.Cpuset = "0-1", cpuset
		seen[w.stdoutOf(t, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r)] = true
	}
	require.Len(t, seen, 3)
}
