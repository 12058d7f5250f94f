package network

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/structs"
)

// world has networks whose plugins are scripts that write down what they were asked.
type world struct {
	t    *testing.T
	n    *Networks
	dir  string
	asks string
}

// answering is a plugin that answers an ADD with an address, and fails where a file says so.
const answering = `#!/bin/sh
config=$(cat)
echo "$CNI_COMMAND $(basename $0) $CNI_CONTAINERID $CNI_NETNS" >>%[1]s/asks
echo "$config" >%[1]s/$CNI_COMMAND.$(basename $0)
if [ -e %[1]s/fail ]; then
	echo '{"cniVersion":"0.4.0","code":7,"msg":"out of addresses"}'
	exit 1
fi
[ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"0.4.0","ips":[{"version":"6","address":"fd00::7/64"},{"version":"4","address":"10.1.2.3/24"}]}'
exit 0
`

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	dir := t.TempDir()
	w := &world{t: t, dir: dir, asks: filepath.Join(dir, "asks")}
	for _, name := range bridgePlugins {
		w.plugin(name, fmt.Sprintf(answering, dir))
	}
	w.n = New(Config{
		PluginPath: []string{filepath.Join(dir, "none"), filepath.Join(dir, "plugins")}, ConfigDir: filepath.Join(dir, "config"),
		Bridge: "wn-test", Subnet: netip.MustParsePrefix("10.1.2.0/24"),
		NamespaceDir: filepath.Join(dir, "netns"), RunDir: filepath.Join(dir, "run"),
	})
	t.Cleanup(func() {
		kept, _ := filepath.Glob(filepath.Join(dir, "netns", "*")) // the pattern is a good one
		for _, path := range kept {
			_ = removeNamespace(path) // a test that failed left it
		}
	})
	return w
}

func (w *world) plugin(name, script string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "plugins", name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(script), 0o755))
}

// asked returns what the plugins were asked since the last call, a line each.
func (w *world) asked() string {
	w.t.Helper()
	lines, err := os.ReadFile(w.asks)
	if err != nil {
		return ""
	}
	require.NoError(w.t, os.Remove(w.asks))
	return strings.ReplaceAll(string(lines), w.dir, "")
}

func alloc(mode string, ports ...structs.AllocatedPort) *structs.Allocation {
	group := &nomad.TaskGroup{Name: new("g"), Networks: []*nomad.NetworkResource{{Mode: mode}}}
	return &structs.Allocation{
		ID: "a1", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{group}},
		Resources: structs.AllocatedResources{Ports: ports},
	}
}

// none makes no namespace.
func none(context.Context) (*os.File, error) { return nil, nil }

const (
	added   = "ADD bridge a1 /netns/a1\nADD firewall a1 /netns/a1\nADD portmap a1 /netns/a1\n"
	deleted = "DEL portmap a1 /netns/a1\nDEL firewall a1 /netns/a1\nDEL bridge a1 /netns/a1\n"
)

// given is what the plugins of a world give.
func (w *world) given() *structs.AllocNetwork {
	return &structs.AllocNetwork{Mode: ModeBridge, Namespace: w.n.Path("a1"), Interface: "eth0", Address: "10.1.2.3", AddressIPv6: "fd00::7"}
}

func TestAnAllocationHasItsNetworkWhateverAnEarlierAgentLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		left func(w *world)
		asks string
	}{
		"nothing": {func(*world) {}, added},
		"the file that a namespace was to be kept at": {func(w *world) {
			require.NoError(t, os.MkdirAll(filepath.Dir(w.n.Path("a1")), 0o755))
			require.NoError(t, os.WriteFile(w.n.Path("a1"), nil, 0o444))
		}, added},
		"a namespace without a network": {func(w *world) {
			require.NoError(t, w.n.keep(w.n.Path("a1"), nil))
		}, deleted + added},
		"all of it": {func(w *world) {
			_, err := w.n.Up(t.Context(), alloc(ModeBridge), none)
			require.NoError(t, err)
		}, ""},
		"a network whose namespace a reboot took": {func(w *world) {
			_, err := w.n.Up(t.Context(), alloc(ModeBridge), none)
			require.NoError(t, err)
			require.NoError(t, removeNamespace(w.n.Path("a1")))
		}, deleted + added},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.left(w)
			w.asked()
			got, err := w.n.Up(t.Context(), alloc(ModeBridge), none)
			require.NoError(t, err)
			require.Equal(t, w.given(), got)
			require.Equal(t, tt.asks, w.asked())
			require.True(t, isNamespace(w.n.Path("a1")))

			require.NoError(t, w.n.Down(t.Context(), alloc(ModeBridge)))
			require.Equal(t, deleted, w.asked())
			require.NoFileExists(t, w.n.Path("a1"))
			require.NoError(t, w.n.Down(t.Context(), alloc(ModeBridge)))
			require.Empty(t, w.asked(), "there was none any more")
		})
	}
}

func TestANamespaceThatSomebodyElseMadeIsKept(t *testing.T) {
	w := newWorld(t)
	made := filepath.Join(w.dir, "made")
	require.NoError(t, makeNamespace(made))
	t.Cleanup(func() { _ = removeNamespace(made) })
	asked := 0
	create := func(context.Context) (*os.File, error) {
		asked++
		return os.Open(made)
	}
	for range 2 { // the second time it is there
		got, err := w.n.Up(t.Context(), alloc(ModeBridge), create)
		require.NoError(t, err)
		require.Equal(t, w.given(), got)
		theirs, err := os.Stat(made)
		require.NoError(t, err)
		ours, err := os.Stat(w.n.Path("a1"))
		require.NoError(t, err)
		require.True(t, os.SameFile(theirs, ours))
	}
	require.Equal(t, 1, asked)
	require.Equal(t, added, w.asked())
	require.NoError(t, removeNamespace(made))
	require.True(t, isNamespace(w.n.Path("a1")), "it stays when who made it lets go of it")
	require.NoError(t, w.n.Down(t.Context(), alloc(ModeBridge)))
	require.NoFileExists(t, w.n.Path("a1"))

	_, err := w.n.Up(t.Context(), alloc(ModeBridge), func(context.Context) (*os.File, error) { return nil, io.ErrUnexpectedEOF })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoFileExists(t, w.n.Path("a1"))
}

func TestEveryPortIsMappedForBothProtocols(t *testing.T) {
	w := newWorld(t)
	_, err := w.n.Up(t.Context(), alloc(ModeBridge, structs.AllocatedPort{Label: "http", HostIP: "127.0.0.1", Value: 20000, To: 80}, structs.AllocatedPort{Label: "same", Value: 20001}), none)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.n.Down(context.Background(), alloc(ModeBridge))) }()
	config, err := os.ReadFile(filepath.Join(w.dir, "ADD.portmap"))
	require.NoError(t, err)
	var got struct {
		RuntimeConfig struct{ PortMappings []portMapping }
	}
	require.NoError(t, json.Unmarshal(config, &got))
	require.Equal(t, []portMapping{
		{20000, 80, "tcp", "127.0.0.1"},
		{20000, 80, "udp", "127.0.0.1"},
		{20001, 20001, "tcp", ""},
		{20001, 20001, "udp", ""},
	}, got.RuntimeConfig.PortMappings)
}

func TestANetworkThatCannotBeMadeLeavesNothing(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "plugins", "firewall"), []byte("#!/bin/sh\n[ $CNI_COMMAND = DEL ] || { echo '{\"code\":7,\"msg\":\"out of rules\"}'; exit 1; }\n"), 0o755))
	_, err := w.n.Up(t.Context(), alloc(ModeBridge), none)
	require.ErrorContains(t, err, `network mode "bridge": plugin type="firewall" failed (add): out of rules`)
	require.NoFileExists(t, w.n.Path("a1"))
	require.Contains(t, w.asked(), "ADD bridge a1 /netns/a1\nDEL portmap a1 /netns/a1\nDEL bridge a1 /netns/a1\n")
}

func TestNetworksThatCannotBeTakenBackAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	_, err := w.n.Up(t.Context(), alloc(ModeBridge), none)
	require.NoError(t, err)
	fail := filepath.Join(w.dir, "fail")
	require.NoError(t, os.WriteFile(fail, nil, 0o644))
	require.ErrorContains(t, w.n.Down(t.Context(), alloc(ModeBridge)), "taking the network back: plugin")
	require.True(t, isNamespace(w.n.Path("a1")), "who asks again finds what is to be taken back")
	require.NoError(t, os.Remove(fail))
	require.NoError(t, w.n.Down(t.Context(), alloc(ModeBridge)))
	require.NoFileExists(t, w.n.Path("a1"))
}

func TestWhatWasGivenIsTakenBackAsItWasWhateverTheOperatorChanges(t *testing.T) {
	lan := func(w *world) string { return filepath.Join(w.dir, "config", "lan.conflist") }
	write := func(w *world, plugins string) {
		require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "config"), 0o755))
		require.NoError(t, os.WriteFile(lan(w), []byte(`{"cniVersion":"0.4.0","name":"lan","plugins":[`+plugins+`]}`), 0o644))
	}
	for name, tt := range map[string]struct {
		mode   string
		change func(w *world)
		want   string
	}{
		"the bridge has another name":    {ModeBridge, func(w *world) { w.n.cfg.Bridge = "wn-other" }, deleted},
		"the network's file is gone":     {"cni/lan", func(w *world) { require.NoError(t, os.Remove(lan(w))) }, "DEL portmap a1 /netns/a1\nDEL bridge a1 /netns/a1\n"},
		"the network has fewer plugins":  {"cni/lan", func(w *world) { write(w, `{"type":"bridge"}`) }, "DEL portmap a1 /netns/a1\nDEL bridge a1 /netns/a1\n"},
		"the network has another plugin": {"cni/lan", func(w *world) { write(w, `{"type":"firewall"}`) }, "DEL portmap a1 /netns/a1\nDEL bridge a1 /netns/a1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			write(w, `{"type":"bridge"},{"type":"portmap"}`)
			given, err := w.n.Up(t.Context(), alloc(tt.mode), none)
			require.NoError(t, err)
			w.asked()
			tt.change(w)
			if tt.mode == ModeBridge {
				again, err := w.n.Up(t.Context(), alloc(tt.mode), none)
				require.NoError(t, err)
				require.Equal(t, given, again, "what runs in it goes on")
			}
			require.NoError(t, w.n.Down(t.Context(), alloc(tt.mode)))
			require.Equal(t, tt.want, w.asked())
			require.NoFileExists(t, w.n.Path("a1"))
			left, err := filepath.Glob(filepath.Join(w.dir, "run", "results", "*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestNoNetworkIsTheLoopbackInterfaceOnly(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		got, err := w.n.Up(t.Context(), alloc(ModeNone), none)
		require.NoError(t, err)
		require.Equal(t, &structs.AllocNetwork{Mode: ModeNone, Namespace: w.n.Path("a1")}, got)
	}
	require.Equal(t, []string{"lo up"}, interfacesIn(t, w.n.Path("a1")))
	require.NoError(t, w.n.Down(t.Context(), alloc(ModeNone)))
	require.NoFileExists(t, w.n.Path("a1"))
	require.Empty(t, w.asked())
}

// interfacesIn returns the interfaces of a namespace.
func interfacesIn(t *testing.T, path string) (names []string) {
	t.Helper()
	found := make(chan []string)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the namespace
		f, err := os.Open(path)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			found <- []string{err.Error()}
			return
		}
		all, _ := net.Interfaces() // none: the test says so
		for _, i := range all {
			state := "down"
			if i.Flags&net.FlagUp != 0 {
				state = "up"
			}
			names = append(names, i.Name+" "+state)
		}
		found <- names
	}()
	return <-found
}

func TestModesSayWhatTheNodeLacks(t *testing.T) {
	w := newWorld(t)
	config := filepath.Join(w.dir, "config")
	require.NoError(t, os.MkdirAll(config, 0o755))
	for file, content := range map[string]string{
		"10-lan.conflist": `{"cniVersion":"0.4.0","name":"lan","plugins":[{"type":"bridge"}]}`,
		"20-far.conflist": `{"cniVersion":"0.4.0","name":"far","plugins":[{"type":"macvlan"}]}`,
		"30-bad.conflist": `{`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(config, file), []byte(content), 0o644))
	}
	where := " are not in " + filepath.Join(w.dir, "none") + " or " + filepath.Join(w.dir, "plugins") + ": install containernetworking-plugins, or set cni_path in the client block"
	require.Equal(t, map[string]string{
		"bridge": "", "none": "", "cni/lan": "",
		"cni/far": `network mode "cni/far": the CNI plugins macvlan` + where,
	}, w.n.Modes())
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "plugins", "firewall"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(w.dir, "plugins", "portmap")))
	require.Equal(t, `network mode "bridge": the CNI plugins firewall, portmap`+where, w.n.Modes()["bridge"])

	_, err := w.n.Up(t.Context(), alloc("cni/none"), none)
	require.ErrorContains(t, err, `network mode "cni/none": no configuration of that name in `+config)
	_, err = w.n.Up(t.Context(), alloc("weird"), none)
	require.EqualError(t, err, `unknown network mode "weird": the modes are host, none, bridge and cni/NAME`)
}

func TestPluginsAreAskedForTheirVersionOnce(t *testing.T) {
	w := newWorld(t)
	counting := fmt.Sprintf("#!/bin/sh\necho asked >>%s/asks\necho 'CNI bridge plugin v1.2.3' >&2\n", w.dir)
	w.plugin("bridge", counting)
	w.plugin("portmap", "#!/bin/sh\necho CNI portmap plugin version unknown\n")
	w.plugin("host-local", "#!/bin/sh\nexit 3\n")
	w.plugin("firewall", "#!/bin/sh\necho who am I\n")
	for range 2 {
		require.Equal(t, map[string]string{"bridge": "v1.2.3", "portmap": "unknown"}, w.n.Versions())
	}
	require.Equal(t, "asked\n", w.asked())
	require.NoError(t, os.Chtimes(filepath.Join(w.dir, "plugins", "bridge"), time.Time{}, time.Unix(1, 0)))
	w.n.Versions()
	require.Equal(t, "asked\n", w.asked(), "its file has changed")
}

// TestRealPluginsMakeABridge has the plugins of the Container Network Interface project
// make a network that a program answers in, by its own address and by the node's port.
func TestRealPluginsMakeABridge(t *testing.T) {
	w := newWorld(t)
	n := New(Config{
		PluginPath: []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}, ConfigDir: w.dir,
		Bridge: "wn-test", Subnet: netip.MustParsePrefix("172.26.200.0/24"), NamespaceDir: w.dir, RunDir: filepath.Join(w.dir, "run"),
	})
	if err := n.Missing(ModeBridge); err != nil {
		t.Skip(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	a := alloc(ModeBridge, structs.AllocatedPort{HostIP: "127.0.0.1", Value: port, To: 80})
	given, err := n.Up(t.Context(), a, none)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, n.Down(context.Background(), a))
		require.NoError(t, exec.Command("ip", "link", "delete", "wn-test").Run())
	}()
	require.Equal(t, []string{"lo up", "eth0 up"}, interfacesIn(t, given.Namespace))

	listening := listenIn(t, given.Namespace, ":80")
	go answer(listening, "hello")
	for _, address := range []string{given.Address + ":80", fmt.Sprintf("127.0.0.1:%d", port)} {
		conn, err := net.DialTimeout("tcp", address, 10*time.Second)
		require.NoError(t, err, address)
		said, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, "hello", string(bytes.TrimSpace(said)))
	}
}

// listenIn listens in a namespace.
func listenIn(t *testing.T, path, address string) net.Listener {
	t.Helper()
	made := make(chan net.Listener)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the namespace
		f, err := os.Open(path)
		if err == nil && unix.Setns(int(f.Fd()), unix.CLONE_NEWNET) == nil {
			l, _ := net.Listen("tcp", address) // nil: the test says so
			made <- l
			return
		}
		made <- nil
	}()
	l := <-made
	require.NotNil(t, l)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func answer(l net.Listener, text string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the test has ended
		}
		_, _ = io.WriteString(conn, text) // who asks says so
		_ = conn.Close()
	}
}

// TestAPortThatAProcessHasIsNotTakenFromIt: mapping it would lead its clients to the allocation.
func TestAPortThatAProcessHasIsNotTakenFromIt(t *testing.T) {
	w := newWorld(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = udp.Close() }()
	for protocol, at := range map[string]net.Addr{"tcp": tcp.Addr(), "udp": udp.LocalAddr()} {
		port := int(netip.MustParseAddrPort(at.String()).Port())
		for _, ip := range []string{"127.0.0.1", ""} {
			_, err := w.n.Up(t.Context(), alloc(ModeBridge, structs.AllocatedPort{Label: "http", HostIP: ip, Value: port}), none)
			require.ErrorContains(t, err, fmt.Sprintf(`port "http": a process of the node listens on %s:%d/%s`, ip, port, protocol))
		}
	}
	require.NoFileExists(t, w.n.Path("a1"))
	require.NotContains(t, w.asked(), "ADD ")
}
