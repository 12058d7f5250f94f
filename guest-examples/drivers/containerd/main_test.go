package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

func newNode(t *testing.T, settings string) *drivertest.Node {
	t.Helper()
	n := drivertest.New(t, func() driver.Driver { return &containerd{} })
	require.NoError(t, n.Configure(settings))
	return n
}

// specified is the specification of a task's container.
func specified(t *testing.T, settings, text string, change func(*builder)) (config.Value, error) {
	t.Helper()
	n := newNode(t, settings)
	task := n.Task(text)
	d := &containerd{}
	require.NoError(t, d.Configure(context.Background(), []byte(settings)))
	c, err := tasks.Decode(task.DriverConfig)
	require.NoError(t, err)
	b := &builder{d: d, t: task, c: &c, id: "id", image: &image{name: "i:1", command: []string{"run", "it"}, env: []string{"A=image", "B=image"}, dir: "srv"}}
	if change != nil {
		change(b)
	}
	spec, err := b.specification()
	require.True(t, json.Valid(spec), "%s", spec)
	v, invalid := config.Parse(spec)
	require.NoError(t, invalid)
	return v, err
}

// at is the JSON of a value in a specification, by a path with dots.
func at(v config.Value, path string) string {
	return string(appendJSON(nil, v.Get(strings.Split(path, ".")...)))
}

func TestTheKeysBecomeTheSpecification(t *testing.T) {
	settings := `{"allow_caps": ["chown", "kill", "net_raw"], "pids_limit": 100, "allow_privileged": true}`
	for text, want := range map[string][2]string{
		`"cwd": "/w"`:                              {"process.cwd", `"/w"`},
		`"readonly_rootfs": true`:                  {"root.readonly", `true`},
		`"hostname": "h"`:                          {"hostname", `"h"`},
		`"tty": true`:                              {"process.terminal", `true`},
		`"command": "a", "args": ["b"]`:            {"process.args", `["a","b"]`},
		`"entrypoint": ["e"]`:                      {"process.args", `["e"]`},
		`"entrypoint": ["e"], "args": ["b"]`:       {"process.args", `["e","b"]`},
		`"args": ["b"]`:                            {"process.args", `["b"]`},
		`"cap_drop": ["CAP_KILL"]`:                 {"process.capabilities.bounding", `["CAP_CHOWN","CAP_NET_RAW"]`},
		`"cap_drop": ["all"], "cap_add": ["kill"]`: {"process.capabilities.effective", `["CAP_KILL"]`},
		`"pids_limit": 7`:                          {"linux.resources.pids.limit", `7`},
		`"sysctl": {"net.core.somaxconn": "1"}`:    {"linux.sysctl", `{"net.core.somaxconn":"1"}`},
		`"privileged": true`:                       {"process.noNewPrivileges", `false`},
		`"host_network": true`:                     {"linux.namespaces", `[{"type":"ipc"},{"type":"mount"},{"type":"pid"},{"type":"uts"}]`},
		`"pid_mode": "host", "ipc_mode": "host"`:   {"linux.namespaces", `[{"type":"mount"},{"type":"network"},{"type":"uts"}]`},
	} {
		v, err := specified(t, settings, `{"image": "i:1", `+text+`}`, nil)
		require.NoError(t, err, text)
		require.Equal(t, want[1], at(v, want[0]), text)
	}
}

func TestEveryContainerHasTheTasksOwn(t *testing.T) {
	v, err := specified(t, `{}`, `{"image": "i:1"}`, func(b *builder) {
		b.t.Env = map[string]string{"B": "task", "C": "task"}
		b.t.User = "12:34"
		b.t.Directories = &wasmnodev1.TaskDirectories{Shared: "/x/alloc", Task: "/x/task", Local: "/x/task/local", Secrets: "/x/task/secrets"}
		b.t.Mounts = []*wasmnodev1.Mount{{HostPath: "/h", TaskPath: "/t", ReadOnly: true}, {HostPath: "/r", TaskPath: "/etc/resolv.conf"}}
		b.t.Resources = &wasmnodev1.Resources{CpuMhz: 500, MemoryBytes: 1 << 20, MemoryMaxBytes: 2 << 20, Cores: []uint32{1, 3}}
		b.t.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: "/run/netns/x"}
	})
	require.NoError(t, err)
	for path, want := range map[string]string{
		"process.args":            `["run","it"]`,
		"process.cwd":             `"/srv"`,
		"process.env":             `["A=image","B=task","C=task","PATH=` + defaultPath + `"]`,
		"process.user":            `{"gid":34,"uid":12}`,
		"process.noNewPrivileges": `true`,
		"linux.cgroupsPath":       `"/nomad/id"`,
		"linux.resources.memory":  `{"limit":2097152,"reservation":1048576,"swap":2097152}`,
		"linux.resources.cpu":     `{"cpus":"1,3","shares":500}`,
		"linux.resources.devices": `[{"access":"rwm","allow":false}]`,
		"linux.namespaces":        `[{"type":"ipc"},{"type":"mount"},{"path":"/run/netns/x","type":"network"},{"type":"pid"},{"type":"uts"}]`,
	} {
		require.Equal(t, want, at(v, path), path)
	}
	mounts := map[string]string{}
	for _, m := range v.Get("mounts").Items() {
		mounts[m.Get("destination").Text()] = m.Get("source").Text() + " " + strings.Join(m.Get("options").Texts(), ",")
	}
	for inside, want := range map[string]string{
		"/alloc": "/x/alloc rbind,rprivate", "/local": "/x/task/local rbind,rprivate", "/secrets": "/x/task/secrets rbind,rprivate",
		"/etc/hosts": "/x/task/etc_hosts rbind,rprivate", "/t": "/h rbind,rprivate,ro", "/etc/resolv.conf": "/r rbind,rprivate",
	} {
		require.Equal(t, want, mounts[inside], inside)
	}
}

func TestAUserIsANumberOrRoot(t *testing.T) {
	for user, want := range map[string]string{
		"": `{"gid":0,"uid":0}`, "root": `{"gid":0,"uid":0}`, "root:root": `{"gid":0,"uid":0}`, "7": `{"gid":0,"uid":7}`, "7:root": `{"gid":0,"uid":7}`,
	} {
		v, err := specified(t, `{}`, `{"image": "i:1"}`, func(b *builder) { b.image.user = user })
		require.NoError(t, err, user)
		require.Equal(t, want, at(v, "process.user"), user)
	}
	for _, user := range []string{"www", "7:www", "-1", "4294967296", ":7"} {
		_, err := specified(t, `{}`, `{"image": "i:1"}`, func(b *builder) { b.t.User = user })
		require.ErrorContains(t, err, "is not a number", user)
	}
}

func TestWhatTheOperatorDoesNotAllowIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		`"privileged": true`:                                                               "privileged: the plugin's allow_privileged is not set",
		`"pid_mode": "host"`:                                                               "pid_mode: the plugin's allow_privileged is not set",
		`"cap_add": ["sys_admin"]`:                                                         "cap_add: the plugin's allow_caps does not have sys_admin",
		`"cap_add": ["all"]`:                                                               "cap_add: the plugin's allow_caps does not have all",
		`"pids_limit": 101`:                                                                "pids_limit: the plugin's is 100",
		`"mounts": [{"source": "/etc", "target": "/x"}]`:                                   `volumes are not enabled; cannot mount host path: "/etc"`,
		`"mounts": [{"source": "../../../etc", "target": "/x"}]`:                           "volumes are not enabled",
		`"mounts": [{"source": ".", "target": "/x"}]`:                                      "cannot mount the task's directory as a whole",
		`"mounts": [{"source": "local/../", "target": "/x"}]`:                              "cannot mount the task's directory as a whole",
		`"mounts": [{"target": "/x"}]`:                                                     "needs a source",
		`"mounts": [{"type": "tmpfs", "source": "/etc", "target": "/x"}]`:                  "a mount of type tmpfs has no source",
		`"mounts": [{"source": "local", "target": "/x", "options": ["rbind", "rshared"]}]`: "cannot have the mount option rshared",
		`"mounts": [{"source": "local", "target": "/x", "options": ["lowerdir=/etc"]}]`:    `there is no option "lowerdir=/etc"`,
	} {
		_, err := specified(t, `{"pids_limit": 100}`, `{"image": "i:1", `+text+`}`, nil)
		require.ErrorContains(t, err, says, text)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
		require.False(t, abi.IsRecoverable(err))
	}
	for says, change := range map[string]func(*builder){
		`the task's user "nobody" is not a number`: func(b *builder) { b.t.User = "nobody" },
		`the image's user "www" is not a number`:   func(b *builder) { b.image.user = "www" },
		"has no command":                           func(b *builder) { b.image.command = nil },
		"device: containerd is told":               func(b *builder) { b.t.Devices = []*wasmnodev1.DeviceNode{{HostPath: "/dev/a"}} },
		"the group has a network of mode bridge": func(b *builder) {
			b.c.hostNetwork, b.t.Network = true, &wasmnodev1.TaskNetwork{Mode: "bridge"}
		},
	} {
		_, err := specified(t, `{}`, `{"image": "i:1"}`, change)
		require.ErrorContains(t, err, says)
	}
	v, err := specified(t, `{"allow_caps": ["all"], "allow_privileged": true, "volumes": {"enabled": true}}`,
		`{"image": "i:1", "privileged": true, "mounts": [{"source": "/etc", "target": "/x", "options": ["ro"]}]}`, nil)
	require.NoError(t, err)
	require.Empty(t, v.Get("linux", "maskedPaths").Items())
	require.Len(t, v.Get("process", "capabilities", "bounding").Items(), len(everyCapability))
}

func TestAnUnknownKeyIsRefusedWithItsPath(t *testing.T) {
	n := newNode(t, "")
	for _, config := range []string{`{}`, `{"image": "i", "imgae": "x"}`, `{"image": 1}`, `{"image": "i", "mounts": [{"type": "x", "target": "/"}]}`} {
		_, err := n.TryTask(config)
		require.Error(t, err, config)
	}
	for _, settings := range []string{`{"endpoint": "tcp://x"}`, `{"namespace": "a/b"}`} {
		require.Error(t, n.Configure(settings), settings)
	}
}

func TestAnImageHasItsFullName(t *testing.T) {
	for name, want := range map[string]string{
		"redis":                "docker.io/library/redis:latest",
		"redis:7":              "docker.io/library/redis:7",
		"a/b":                  "docker.io/a/b:latest",
		"localhost/a:1":        "localhost/a:1",
		"127.0.0.1:5000/a":     "127.0.0.1:5000/a:latest",
		"r.example/a@sha256:0": "r.example/a@sha256:0",
	} {
		require.Equal(t, want, fullName(name), name)
	}
}

func TestASnapshotHasTheNameOfAllItsLayers(t *testing.T) {
	require.Empty(t, chain(nil))
	require.Equal(t, "sha256:a", chain([]string{"sha256:a"}))
	require.Equal(t, "sha256:970a948bffa8de94d6e22d747ba8c95030e6e546909f98f54e99a13005e173a8", chain([]string{"sha256:a", "sha256:b"}))
}

func TestAContainersIDIsContainerds(t *testing.T) {
	for name, want := range map[string]string{
		"web":                    "web-01234567-",
		"a b/c":                  "a-b-c-01234567-",
		"--":                     "01234567-",
		strings.Repeat("x", 100): strings.Repeat("x", 40) + "-01234567-",
	} {
		id := containerID(&driver.TaskConfig{Name: name, AllocId: "01234567-89ab", Id: "i"})
		require.Equal(t, want, id[:len(id)-12])
		require.Regexp(t, `^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`, id)
		require.LessOrEqual(t, len(id), 76)
		require.NotEqual(t, id, containerID(&driver.TaskConfig{Name: name, AllocId: "01234567-89ab", Id: "j"}))
	}
}

func TestAVersionIsNewEnough(t *testing.T) {
	for text, want := range map[string]bool{"1.6.20~ds1": true, "v2.0.1": true, "1.10.0": true, "1.5.9": false, "0.9": false, "": false, "x.y": false} {
		require.Equal(t, want, atLeast(text, 1, 6), text)
	}
}

func TestWithoutItsEngineTheDriverIsNotHealthy(t *testing.T) {
	n := newNode(t, "")
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.NotEqual(t, driver.Healthy, f.Health)
	require.Contains(t, f.Description, "/run/containerd/containerd.sock")
	task, handle := n.Task(`{"image": "i:1"}`), handle("c")
	_, _, err = n.StartTask(task)
	require.True(t, abi.IsRecoverable(err), "%v", err)
	_, err = n.StopTask(task, handle, "", 1)
	require.True(t, abi.IsRecoverable(err), "%v", err)
	require.True(t, abi.IsRecoverable(n.DestroyTask(task, handle, true)))
	_, err = n.RecoverTask(task, handle)
	require.True(t, abi.IsRecoverable(err), "%v", err)
}
