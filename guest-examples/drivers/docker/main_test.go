package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

func newNode(t *testing.T, settings string) *drivertest.Node {
	t.Helper()
	n := drivertest.New(t, func() driver.Driver { return &docker{} })
	require.NoError(t, n.Configure(settings))
	return n
}

// specified is the request that creates a task's container.
func specified(t *testing.T, settings, text string, change func(*driver.TaskConfig)) (map[string]any, error) {
	t.Helper()
	n := newNode(t, settings)
	task := n.Task(text)
	if change != nil {
		change(task)
	}
	d := &docker{}
	require.NoError(t, d.Configure(context.Background(), []byte(settings)))
	c, err := config.Parse(task.DriverConfig)
	require.NoError(t, err)
	s, err := d.specify(task, c, membership{})
	if err != nil {
		return nil, err
	}
	s.image = "i:1"
	var out map[string]any
	require.NoError(t, json.Unmarshal(s.encoded(), &out), "%s", s.encoded())
	return out, nil
}

// defaults are the plugin's, as the node fills them in.
const defaults = `{"endpoint": "unix:///run/docker.sock", "allow_caps": ["chown", "kill"], "allow_runtimes": ["runc"], "allow_devices": ["/dev/fuse", "/dev/dri/*"], "allow_security_opts": ["no-new-privileges*"]}`

func TestNomadsKeysBecomeTheEnginesFields(t *testing.T) {
	ports := func(task *driver.TaskConfig) {
		task.Ports = []*wasmnodev1.Port{{Label: "http", HostIp: "10.0.0.1", HostPort: 20000, TaskPort: 80}, {Label: "db", HostIp: "10.0.0.1", HostPort: 20001}}
	}
	for config, want := range map[string]string{
		`"command": "a", "args": ["b", "c"]`:                  `{"Cmd": ["a", "b", "c"]}`,
		`"entrypoint": "/x"`:                                  `{"Entrypoint": ["/x"]}`,
		`"entrypoint": ["/x", "y"], "tty": true`:              `{"Entrypoint": ["/x", "y"], "Tty": true}`,
		`"work_dir": "/w", "interactive": true`:               `{"WorkingDir": "/w", "OpenStdin": true}`,
		`"hostname": "h", "mac_address": "02:42:00:00:00:01"`: `{"Hostname": "h", "MacAddress": "02:42:00:00:00:01"}`,
		`"healthchecks": {"disable": true}`:                   `{"Healthcheck": {"Test": ["NONE"]}}`,
		`"memory_hard_limit": 128`:                            `{"HostConfig": {"Memory": 134217728, "MemorySwap": 134217728, "MemoryReservation": 67108864}}`,
		`"ulimit": {"nofile": "1:2", "nproc": "7"}`:           `{"HostConfig": {"CpuShares": 100, "Memory": 67108864}}`,
		`"cap_add": ["CAP_KILL"], "cap_drop": ["all"]`:        `{"HostConfig": {"CapAdd": ["KILL"], "CapDrop": ["ALL"]}}`,
		`"ports": ["http", "db"]`: `{"ExposedPorts": {"80/tcp": {}, "80/udp": {}, "20001/tcp": {}, "20001/udp": {}},
			"HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "10.0.0.1", "HostPort": "20000"}], "80/udp": [{"HostIp": "10.0.0.1", "HostPort": "20000"}],
			"20001/tcp": [{"HostIp": "10.0.0.1", "HostPort": "20001"}], "20001/udp": [{"HostIp": "10.0.0.1", "HostPort": "20001"}]}}}`,
		`"network_mode": "host", "ports": ["http"]`:                                                    `{"HostConfig": {"NetworkMode": "host"}}`,
		`"network_mode": "net1", "network_aliases": ["a"]`:                                             `{"NetworkingConfig": {"EndpointsConfig": {"net1": {"Aliases": ["a"]}}}}`,
		`"devices": [{"host_path": "/dev/fuse"}]`:                                                      `{"HostConfig": {"Devices": [{"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"}]}}`,
		`"mount": [{"type": "tmpfs", "target": "/t", "readonly": true, "tmpfs_options": {"size": 5}}]`: `{"HostConfig": {"Mounts": [{"Type": "tmpfs", "Target": "/t", "ReadOnly": true, "TmpfsOptions": {"SizeBytes": 5}}]}}`,
		`"logging": {"type": "syslog", "config": {"tag": "x"}}`:                                        `{"HostConfig": {"LogConfig": {"Type": "syslog", "Config": {"tag": "x"}}}}`,
		`"security_opt": ["no-new-privileges:true"]`:                                                   `{"HostConfig": {"SecurityOpt": ["no-new-privileges:true"]}}`,
		`"shm_size": 1, "sysctl": {"net.core.somaxconn": "1"}`:                                         `{"HostConfig": {"ShmSize": 1, "Sysctls": {"net.core.somaxconn": "1"}}}`,
		`"pids_limit": 7, "init": true, "readonly_rootfs": true`:                                       `{"HostConfig": {"PidsLimit": 7, "Init": true, "ReadonlyRootfs": true}}`,
		`"extra_hosts": ["a:1.2.3.4"], "dns_servers": ["1.1.1.1"]`:                                     `{"HostConfig": {"ExtraHosts": ["a:1.2.3.4"], "Dns": ["1.1.1.1"]}}`,
	} {
		got, err := specified(t, defaults, `{"image": "i:1", `+config+`}`, ports)
		require.NoError(t, err, config)
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(want), &fields), want)
		requireWithin(t, config, fields, got)
	}
}

// requireWithin requires the members of want, at any depth of objects.
func requireWithin(t *testing.T, at string, want, got map[string]any) {
	t.Helper()
	for name, v := range want {
		if below, ok := v.(map[string]any); ok && name != "ExposedPorts" {
			inside, _ := got[name].(map[string]any)
			requireWithin(t, at+"."+name, below, inside)
			continue
		}
		require.Equal(t, v, got[name], "%s: %s", at, name)
	}
}

func TestEveryContainerHasTheTasksOwn(t *testing.T) {
	got, err := specified(t, `{"endpoint": "unix:///s", "extra_labels": ["job_name", "task*"]}`, `{"image": "i:1", "labels": {"a": "b"}}`, func(task *driver.TaskConfig) {
		task.Id, task.AllocId, task.User = "a/task/1", "a", "u"
		task.Env = map[string]string{"B": "2", "A": "1"}
		task.Directories = &wasmnodev1.TaskDirectories{Alloc: "/x", Shared: "/x/alloc", Task: "/x/task", Local: "/x/task/local", Secrets: "/x/task/secrets"}
		task.Mounts = []*wasmnodev1.Mount{{HostPath: "/h", TaskPath: "/t", ReadOnly: true}}
		task.Devices = []*wasmnodev1.DeviceNode{{HostPath: "/dev/a", TaskPath: "/dev/b", Permissions: "r"}}
		task.Resources = &wasmnodev1.Resources{CpuMhz: 500, MemoryBytes: 1 << 20, MemoryMaxBytes: 2 << 20, Cores: []uint32{1, 3}}
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": "b", "com.hashicorp.nomad.alloc_id": "a", "wasmnode.task_id": "a/task/1", "com.hashicorp.nomad.job_name": "job",
		"com.hashicorp.nomad.task_name": "task", "com.hashicorp.nomad.task_group_name": "group",
	}, got["Labels"])
	require.Equal(t, []any{"A=1", "B=2"}, got["Env"])
	require.Equal(t, "u", got["User"])
	host := got["HostConfig"].(map[string]any)
	require.Equal(t, []any{"/x/alloc:/alloc", "/x/task/local:/local", "/x/task/secrets:/secrets", "/h:/t:ro"}, host["Binds"])
	require.Equal(t, []any{map[string]any{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"}}, host["Devices"])
	require.Equal(t, "1,3", host["CpusetCpus"])
	require.InDelta(t, 2<<20, host["Memory"], 0)
	require.InDelta(t, 1<<20, host["MemoryReservation"], 0)
	require.Contains(t, host["CapDrop"], "NET_RAW")
}

func TestACPULimitIsTheTasksShareOfTheNode(t *testing.T) {
	for period, want := range map[string][2]float64{"": {100000, 25000}, `, "cpu_cfs_period": 50000`: {50000, 12500}} {
		got, err := specified(t, defaults, `{"image": "i:1", "cpu_hard_limit": true`+period+`}`, func(task *driver.TaskConfig) { task.Resources.CpuThousandths = 250 })
		require.NoError(t, err)
		host := got["HostConfig"].(map[string]any)
		require.InDelta(t, want[0], host["CpuPeriod"], 0)
		require.InDelta(t, want[1], host["CpuQuota"], 0)
	}
}

func TestWhatTheOperatorDoesNotAllowIsRefused(t *testing.T) {
	for config, says := range map[string]string{
		`"privileged": true`:             "Docker privileged mode is disabled",
		`"cap_add": ["sys_admin"]`:       "driver does not allow the following capabilities: sys_admin",
		`"runtime": "kata"`:              `requested runtime "kata" is not allowed`,
		`"volumes": ["/etc:/x"]`:         `volumes are not enabled; cannot mount host path: "/etc:/x"`,
		`"volumes": ["../../../etc:/x"]`: "volumes are not enabled",
		`"volumes": ["x"]`:               `invalid docker volume "x": not <src>:<destination> format`,
		`"mount": [{"type": "bind", "source": "/", "target": "/x"}]`: `cannot mount host path: "/"`,
		`"mount": [{"source": "v", "target": "/x"}]`:                 `cannot mount volume: "v"`,
		`"devices": [{"host_path": "/dev/sda"}]`:                     `driver does not allow the device "/dev/sda"`,
		`"devices": [{"host_path": "/dev/dri/../sda"}]`:              `driver does not allow the device "/dev/dri/../sda"`,
		`"security_opt": ["seccomp=unconfined"]`:                     `driver does not allow the security_opt "seccomp=unconfined"`,
		`"memory_hard_limit": 1`:                                     "task memory requirements exceed driver hard limit of 1 MB",
		`"cpu_hard_limit": true`:                                     "it is not known how much processor time a MHz is",
		`"ports": ["nope"]`:                                          `Port "nope" not found, check network block`,
		`"ulimit": {"nofile": "x"}`:                                  "Malformed soft ulimit nofile: x:x",
		`"port_map": {"db": 5432}`:                                   "'port_map' cannot map group network ports, use 'ports' instead",
		`"isolation": "hyperv"`:                                      `cannot use isolation mode "hyperv" on linux`,
		`"pid_mode": "host"`:                                         `cannot apply "pid_mode" configuration`,
	} {
		_, err := specified(t, defaults, `{"image": "i:1", `+config+`}`, nil)
		require.ErrorContains(t, err, says, config)
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
		require.False(t, abi.IsRecoverable(err))
	}
	got, err := specified(t, `{"endpoint": "unix:///s", "allow_caps": ["all"], "allow_privileged": true, "volumes": {"enabled": true}, "allowed_modes": {"pid": ["host"]}}`,
		`{"image": "i:1", "privileged": true, "cap_add": ["sys_admin"], "volumes": ["/etc:/x:ro"], "pid_mode": "host"}`, nil)
	require.NoError(t, err)
	host := got["HostConfig"].(map[string]any)
	require.Equal(t, true, host["Privileged"])
	require.Equal(t, "host", host["PidMode"])
	require.Contains(t, host["Binds"], "/etc:/x:ro")
}

func TestAnUnknownKeyIsRefusedWithItsPath(t *testing.T) {
	n := newNode(t, "")
	for _, config := range []string{`{}`, `{"image": "i", "imgae": "x"}`, `{"image": 1}`, `{"image": "i", "mount": [{"type": "x", "target": "/"}]}`} {
		_, err := n.TryTask(config)
		require.Error(t, err, config)
	}
}

func TestAnImagesNameHasARepositoryAndATag(t *testing.T) {
	for image, want := range map[string]reference{
		"redis":                        {"redis", "latest", "redis"},
		"redis:7":                      {"redis", "7", "redis:7"},
		"127.0.0.1:5000/a/b":           {"127.0.0.1:5000/a/b", "latest", "127.0.0.1:5000/a/b"},
		"https://127.0.0.1:5000/a/b:2": {"127.0.0.1:5000/a/b", "2", "127.0.0.1:5000/a/b:2"},
		"a@sha256:0123":                {"a", "sha256:0123", "a@sha256:0123"},
	} {
		require.Equal(t, want, parseReference(image), image)
	}
	require.Equal(t, "a@sha256:0123", parseReference("a@sha256:0123").String())
	require.Equal(t, "redis:latest", parseReference("redis").String())
}

func TestAFailedPullSaysWhetherTryingAgainHelps(t *testing.T) {
	for text, again := range map[string]bool{
		"manifest for x:1 not found: manifest unknown":                                      false,
		"pull access denied for x, repository does not exist or may require 'docker login'": false,
		"Get \"https://x/v2/\": unauthorized: authentication required":                      false,
		"Get \"https://x/v2/\": dial tcp: connection refused":                               true,
		"toomanyrequests: You have reached your pull rate limit":                            true,
	} {
		err := pullError(reference{"x", "1", "x:1"}, abi.NewRecoverableError(abi.Unavailable, text))
		require.Equal(t, again, abi.IsRecoverable(err), text)
		require.EqualError(t, err, "Failed to pull `x:1`: "+text)
	}
}

func TestAPullSaysHowFarItIs(t *testing.T) {
	now := time.Unix(0, 0)
	p := newProgress(now)
	var said []string
	for _, line := range []string{
		`{"status": "Pulling from library/x", "id": "1"}`,
		`{"status": "Pulling fs layer", "id": "a"}`, `{"status": "Pulling fs layer", "id": "b"}`, `{"status": "Waiting", "id": "c"}`,
		`{"status": "Already exists", "id": "d"}`,
		`{"status": "Downloading", "id": "a", "progressDetail": {"current": 1048576, "total": 4194304}}`,
		`{"status": "Downloading", "id": "b", "progressDetail": {"current": 1048576, "total": 1048576}}`,
		`{"status": "Download complete", "id": "b"}`, `{"status": "Pull complete", "id": "b"}`,
	} {
		v, err := config.Parse([]byte(line))
		require.NoError(t, err)
		now = now.Add(time.Second)
		if text := p.take(now, v); text != "" {
			said = append(said, text)
		}
	}
	require.Equal(t, []string{"Docker image pull progress: Pulled 1/4 (0.0MiB/0.0MiB) layers: 3 waiting/0 pulling"}, said)
	require.Equal(t, "Docker image pull progress: Pulled 2/4 (2.0MiB/5.0MiB) layers: 1 waiting/1 pulling", p.String())
}

func TestWithoutItsEngineTheDriverIsNotHealthy(t *testing.T) {
	n := newNode(t, "")
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Unhealthy, f.Health)
	require.Contains(t, f.Description, "Failed to connect to docker daemon: connecting to /run/docker.sock")
	for config, says := range map[string]string{
		`{"endpoint": "ssh://x"}`:                             "endpoint: want unix:///PATH",
		`{"gc": {"dangling_containers": {"period": "soon"}}}`: "period",
		`{"auth": {"helper": "../ecr-login"}}`:                `auth.helper: "../ecr-login" is not what follows docker-credential- in the name of a program`,
		`{"helper_directory": "bin"}`:                         "helper_directory",
		`{"auth": {"config": "config.json"}}`:                 "auth.config: config.json is not an absolute path",
		`{"tls": {"ca": "/ca.pem"}}`:                          "tls: the endpoint unix:///run/docker.sock is not tcp://HOST:PORT or https://HOST:PORT",
		`{"endpoint": "tcp://h:1", "tls": {"ca": "ca.pem"}}`:  "tls.ca: ca.pem is not an absolute path",
		`{"endpoint": "tcp://h:1", "tls": {"cert": "/c"}}`:    "tls: cert and key go together",
		`{"gc": {"image_delay": "soon"}}`:                     "image_delay",
	} {
		require.ErrorContains(t, n.Configure(config), says)
	}
}

// An engine that is not there, as while it is restarted, does not mean that its containers are not.
func TestNothingIsTakenForEndedWhileTheEngineIsNotThere(t *testing.T) {
	for _, err := range []error{abi.NewRecoverableError(abi.NotFound, "there is no socket"), abi.NewRecoverableError(abi.Unavailable, "refused")} {
		require.Equal(t, err, ended(err))
		require.False(t, absent(err))
	}
	require.NoError(t, ended(abi.NewError(abi.NotFound, "No such container")))
	n := newNode(t, "")
	task, handle := n.Task(`{"image": "i:1"}`), state{container: "c"}.handle()
	_, err := n.StopTask(task, handle, "", time.Second)
	require.True(t, abi.IsRecoverable(err), "%v", err)
	require.True(t, abi.IsRecoverable(n.DestroyTask(task, handle, true)))
	_, err = n.RecoverTask(task, handle)
	require.True(t, abi.IsRecoverable(err), "%v", err)
}

func TestTheVersionOfTheEngineIsAnAttribute(t *testing.T) {
	n := newNode(t, `{"volumes": {"enabled": true}}`)
	l := n.Listen("/run/docker.sock")
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, map[string]string{
				"/version": `{"Version": "20.10.24", "ApiVersion": "1.41", "Os": "linux"}`, "/info": `{"Runtimes": {"runc": {}}}`,
			}[r.URL.Path])
		}))
	}()
	f, err := n.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, driver.Healthy, f.Health, f.Description)
	for name, want := range map[string]*driver.Attribute{
		"driver.docker.version": driver.String("20.10.24"), "driver.docker.runtimes": driver.String("runc"), "driver.docker.volumes.enabled": driver.Bool(true),
	} {
		require.True(t, want.EqualVT(f.Attributes[name]), name)
	}
}

func TestAnEngineThatTheDriverCannotDoWithIsUnhealthy(t *testing.T) {
	for version, says := range map[string]string{
		`{"ApiVersion": "1.41"}`:    "Healthy",
		`{"ApiVersion": "1.53"}`:    "Healthy",
		`{"ApiVersion": "2.0"}`:     "Healthy",
		`{"ApiVersion": "1.40"}`:    "the engine's API is of version 1.40, and the driver needs 1.41 or newer, as Docker 20.10 and Podman 4.3 have",
		`{"ApiVersion": "0.99"}`:    "the engine's API is of version 0.99, and the driver needs 1.41 or newer, as Docker 20.10 and Podman 4.3 have",
		`{"ApiVersion": "1"}`:       `the engine's API is of version "1", which is no version of Docker's API`,
		`{"ApiVersion": "1.x\n41"}`: `the engine's API is of version "1.x\n41", which is no version of Docker's API`,
		`{"ApiVersion": "1.-41"}`:   `the engine's API is of version "1.-41", which is no version of Docker's API`,
		`{"ApiVersion": 1.41}`:      "the endpoint's answer to GET /version has no ApiVersion: it is no engine with Docker's API",
		`{}`:                        "the endpoint's answer to GET /version has no ApiVersion: it is no engine with Docker's API",
		`[]`:                        "the endpoint's answer to GET /version has no ApiVersion: it is no engine with Docker's API",
		`<html>hello</html>`:        "Failed to connect to docker daemon: the engine's answer to GET /version: json: byte 0: want a value",
	} {
		n := newNode(t, "")
		answering(n.Listen("/run/docker.sock"), func(*http.Request) (int, string) { return http.StatusOK, version })
		f, err := n.Fingerprint()
		require.NoError(t, err)
		require.Contains(t, f.Description, says, version)
		require.NotContains(t, f.Description, "\n", version)
		require.Equal(t, says == "Healthy", f.Health == driver.Healthy, version)
		require.NotEqual(t, driver.Undetected, f.Health, version)
	}
}

// answering is an engine that answers so.
func answering(l net.Listener, answer func(*http.Request) (status int, body string)) {
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, body := answer(r)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
	}()
}

// frame is an entry as the engine sends it.
func frame(stream byte, text string) string {
	head := [8]byte{stream}
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return string(head[:]) + text
}

func TestALogIsReadInFramesAndInLines(t *testing.T) {
	const first, second = "2026-01-02T03:04:05.000000001Z ", "2026-01-02T03:04:05.000000002Z "
	long := strings.Repeat("x", partBytes)
	for text, want := range map[string][]string{
		frame(1, first+"a\n") + frame(2, second+"b"): {"a\n", "b"},
		frame(1, first+"a\n") + frame(2, second)[:9]: {"a\n"},
		"": nil,
	} {
		require.Equal(t, want, entries(t, &log{r: bufio.NewReader(strings.NewReader(text))}))
	}
	require.Equal(t, []string{long, "y\n", "z"}, entries(t, &log{terminal: true, r: bufio.NewReader(strings.NewReader(first + long + first + "y\n" + second + "z"))}))
	for _, text := range []string{frame(3, first), frame(1, "no time"), "\x01\x00\x00\x00\xff\xff\xff\xff"} {
		_, _, _, err := (&log{r: bufio.NewReader(strings.NewReader(text))}).next()
		require.ErrorIs(t, err, errGarbled)
	}
}

func entries(t *testing.T, l *log) (all []string) {
	t.Helper()
	for {
		_, _, content, err := l.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, string(content))
	}
}

// Wherever an interruption was, what is taken after it begins with the next byte.
func TestAnInterruptedLogGoesOnWhereItWas(t *testing.T) {
	log := []struct {
		at   int64
		text string
	}{{1, "a\n"}, {2, "bb"}, {2, "bb\n"}, {2, "c\n"}, {5, "d\n"}}
	var whole string
	for _, e := range log {
		whole += e.text
	}
	for marked := range len(log) + 1 {
		first := &output{}
		for _, e := range log[:marked] {
			first.take(e.at, []byte(e.text))
		}
		for missing := range len(whole) - len(first.pending) + 1 {
			second := &output{from: first.at, at: first.at, missing: uint64(missing)}
			for _, e := range log {
				if e.at >= first.at.time { // as the engine answers
					second.take(e.at, []byte(e.text))
				}
			}
			require.Equal(t, whole[len(first.pending)+missing:], string(second.pending), "marked after %d entries, %d bytes since", marked, missing)
		}
	}
}

// Podman goes on with the log of a container whose end it has missed.
func TestALogThatDoesNotEndEndsWithItsContainer(t *testing.T) {
	before := patience.silence
	patience.silence = 10 * time.Millisecond
	t.Cleanup(func() { patience.silence = before })
	const first, second = "2026-01-02T03:04:05.000000001Z ", "2026-01-02T03:04:05.000000002Z "
	n := newNode(t, `{"endpoint": "unix:///run/docker.sock"}`)
	closed := make(chan struct{})
	var looks atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containers/c/logs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, frame(1, first+"a\n"))
		if r.URL.Query().Get("follow") == "" {
			_, _ = io.WriteString(w, frame(1, second+"b\n"))
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(closed)
	})
	mux.HandleFunc("POST /containers/c/wait", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"StatusCode": 3}`)
	})
	mux.HandleFunc("GET /containers/c/json", func(w http.ResponseWriter, _ *http.Request) {
		switch looks.Add(1) {
		case 1:
			_, _ = io.WriteString(w, `{"State": {"Running": true}}`)
		case 2:
			http.Error(w, `{"message": "full"}`, http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, `{"State": {"Running": false, "ExitCode": 3}}`)
		}
	})
	l := n.Listen("/run/docker.sock")
	go func() { _ = http.Serve(l, mux) }()
	require.Equal(t, int32(3), waited(t, n, n.Task(`{"image": "i"}`), state{container: "c"}.handle()).ExitCode)
	require.Equal(t, "a\nb\n", n.Stdout())
	require.Equal(t, int32(4), looks.Load(), "it is looked at until it has ended, and then for how")
	<-closed
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(frame(1, "2026-01-02T03:04:05.000000001Z a\n")), false)
	f.Add([]byte("2026-01-02T03:04:05.000000001Z a\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, terminal bool) {
		l := &log{r: bufio.NewReader(strings.NewReader(string(text))), terminal: terminal}
		for total := 0; ; {
			_, _, content, err := l.next()
			if err != nil {
				return
			}
			if total += len(content); total > len(text) {
				t.Fatal("more than there is")
			}
		}
	})
}

// TestNoLinkLeadsAMountAway: without volumes, what is mounted is of the task's directories.
func TestNoLinkLeadsAMountAway(t *testing.T) {
	n := newNode(t, `{"endpoint": "unix:///run/docker.sock"}`)
	l := n.Listen("/run/docker.sock")
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				http.Error(w, `{"message": "it asked"}`, http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, `{"Id": "sha256:1"}`)
		}))
	}()
	for source, want := range map[string]string{
		"local/dir":       "it asked",
		"local/none":      "it asked",
		"../alloc/dir":    "it asked",
		"local/link":      "local/link\" is reached by a link",
		"local/link/etc":  "local/link/etc\" is reached by a link",
		"../alloc/link":   "alloc/link\" is reached by a link",
		"../other/local":  "volumes are not enabled",
		"local/../../../": "volumes are not enabled",
	} {
		for _, config := range []string{`"volumes": ["` + source + `:/x"]`, `"mount": [{"type": "bind", "source": "` + source + `", "target": "/x"}]`} {
			task := n.Task(`{"image": "i:1", ` + config + `}`)
			for _, dir := range []string{task.Directories.Local, task.Directories.Shared} {
				require.NoError(t, os.MkdirAll(dir+"/dir", 0o700))
				require.NoError(t, os.Symlink("/", dir+"/link"))
			}
			_, _, err := n.StartTask(task)
			require.ErrorContains(t, err, want, config)
		}
	}
}
