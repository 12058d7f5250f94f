// Package enginetest starts real container engines for tests, each with an image that it makes
// by itself: no registry is asked. The engines have directories and cgroups of their own and leave
// the machine's network alone: one that makes networks is for tests that are [InOwnNetwork].
//
// Where a machine has no engine, the test says so by name and is skipped; where nothing may
// be missing it fails: see [guestbuild.Missing]. Only root can start one.
package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/certtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// Image has one file, /program: see program/main.go.
const Image = "localhost/wasmnode-test:1"

// longest is how long an engine may take to start or end.
const longest = time.Minute

// pollTime is between two looks at whether one has.
const pollTime = 20 * time.Millisecond

// Engine is one that runs until its test ends.
type Engine struct {
	Name    string // "docker" or "podman"
	Socket  string
	process *os.Process
}

// Each runs a test with every engine.
func Each(t *testing.T, test func(t *testing.T, e *Engine)) {
	t.Run("docker", func(t *testing.T) { test(t, Docker(t)) })
	t.Run("podman", func(t *testing.T) { test(t, Podman(t)) })
}

// Docker starts Debian's docker.io, without a network of its own: containers have none, or the
// machine's.
func Docker(t testing.TB) *Engine {
	t.Helper()
	return docker(t, "--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
}

func docker(t testing.TB, options ...string) *Engine {
	t.Helper()
	need(t, "dockerd", "docker.io")
	dir := directory(t)
	parent := "/" + filepath.Base(dir)
	e := &Engine{Name: "docker", Socket: filepath.Join(dir, "s")}
	options = append(options, "-H", "unix://"+e.Socket, "--data-root", dir+"/data", "--exec-root", dir+"/exec", "-p", dir+"/pid",
		"--containerd-namespace", filepath.Base(dir), "--containerd-plugins-namespace", filepath.Base(dir)+"-plugins", "--cgroup-parent", parent)
	cmd := exec.Command("dockerd", options...)
	start(t, dir, cmd,
		func() { _ = syscall.Unmount(dir+"/exec/netns/default", syscall.MNT_DETACH) })
	e.process = cmd.Process
	e.ready(t)
	return e
}

// DockerOverTLS is [Docker] with an address, where it takes only who has the certificate in dir, cert.pem with
// key.pem, which it has itself. Both are of the authority in ca.
func DockerOverTLS(t testing.TB) (e *Engine, address, dir, ca string) {
	t.Helper()
	need(t, "dockerd", "docker.io")
	address, dir = ownAddress(t), t.TempDir()
	host, _, err := net.SplitHostPort(address)
	require.NoError(t, err)
	authority := certtest.NewAuthority(t)
	ca = authority.File(t)
	cert, key := authority.Write(t, dir, host)
	return docker(t, "--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false",
		"-H", "tcp://"+address, "--tlsverify", "--tlscacert", ca, "--tlscert", cert, "--tlskey", key), address, dir, ca
}

// Hang has Docker accept connections and answer nothing, until it is to go on or the test ends.
func (e *Engine) Hang(t testing.TB) (goOn func()) {
	t.Helper()
	require.NoError(t, e.process.Signal(syscall.SIGSTOP))
	goOn = func() { _ = e.process.Signal(syscall.SIGCONT) }
	t.Cleanup(goOn)
	return goOn
}

const podmanContainers = `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "DIR/tmp"
[network]
network_config_dir = "DIR/net"
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
`

// Podman starts Debian's podman with its Docker API.
func Podman(t testing.TB) *Engine {
	t.Helper()
	need(t, "podman", "podman")
	dir := directory(t)
	e := &Engine{Name: "podman", Socket: filepath.Join(dir, "s")}
	cmd := exec.Command("podman", "system", "service", "--time=0", "unix://"+e.Socket)
	cmd.Dir = dir // what watches a container leaves a file where it runs
	cmd.Env = os.Environ()
	for name, text := range map[string]string{
		"CONTAINERS_CONF":            podmanContainers,
		"CONTAINERS_STORAGE_CONF":    "[storage]\ndriver=\"overlay\"\ngraphroot=\"DIR/graph\"\nrunroot=\"DIR/run\"\n",
		"CONTAINERS_REGISTRIES_CONF": "unqualified-search-registries=[]\n" + insecure("127.0.0.1") + insecure(ownHost()),
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
		cmd.Env = append(cmd.Env, name+"="+path)
	}
	start(t, dir, cmd, func() { _ = syscall.Unmount(dir+"/graph/overlay", syscall.MNT_DETACH) })
	e.ready(t)
	return e
}

// insecure has podman ask a registry without TLS, as Docker does any of the machine's own.
func insecure(host string) string {
	return fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", host)
}

// need skips a test that cannot have an engine here.
func need(t testing.TB, program, debian string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("it starts %s", program)
	}
	if os.Geteuid() != 0 {
		t.Skipf("only root can start %s", program)
	}
	Program(t, program, debian)
}

// Program skips a test on a machine without a program, and fails it where none may be missing.
// debian is the package that has it.
func Program(t testing.TB, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		guestbuild.Missing(t, fmt.Sprintf("no %s: %v (Debian's package %s; make engines machines installs it)", program, err, debian))
	}
}

// directory is on a disk, whose name is short enough for a socket.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "wn")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start starts an engine and has it end with the test, or earlier. Its log is in the test's when that fails.
func start(t testing.TB, dir string, cmd *exec.Cmd, unmount func()) (stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the engine ends with the thread that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	require.NoError(t, <-started)
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(longest):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(func() {
		stop()
		_ = log.Close()
		unmount()
		removeCgroups(filepath.Base(dir))
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the engine's log:\n%s", text)
		}
	})
	return stop
}

// removeCgroups removes the empty cgroups that an engine has left.
func removeCgroups(name string) {
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		found, _ := filepath.Glob(pattern)
		for _, dir := range found {
			_ = os.Remove(dir)
		}
	}
}

// ready waits for the engine, and gives it the image.
func (e *Engine) ready(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { e.RemoveAll(t) })
	require.Eventually(t, func() bool {
		status, _ := e.do("GET", "/_ping", nil)
		return status == http.StatusOK
	}, longest, pollTime, "the engine does not start")
	status, answer := e.do("POST", "/images/create?fromSrc=-", layer(t, program(t)))
	require.Equal(t, http.StatusOK, status, answer)
	id := regexp.MustCompile(`[0-9a-f]{64}`).FindString(answer)
	e.Tag(t, id, Image) // what an import is told of names, Podman does not keep
	status, answer = e.do("GET", "/images/"+Image+"/json", nil)
	require.Equal(t, http.StatusOK, status, answer)
}

// program builds the one of the image, and returns its path.
func program(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/wasmnode/wasmnode/internal/enginetest/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// layer is a file system with one program.
func layer(t testing.TB, program string) []byte {
	t.Helper()
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(content))}))
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// do asks the engine and returns the status and the text of its answer; 0: there is none.
func (e *Engine) do(method, path string, body []byte, header ...string) (int, string) {
	client := http.Client{Timeout: longest, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.Socket)
		},
	}}
	r, err := http.NewRequest(method, "http://engine"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/x-tar")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// The name and the password of a [Registry].
const (
	User     = "tester"
	Password = "secret"

	passwordHash = "$2a$04$v01ynjITD0RqiJcgtZxNVO511dqx4XguiUA.p4Fpl3R7Ks8YFlIhS" // by bcrypt
)

// Registry starts Debian's docker-registry, which asks for [User] and [Password], and returns its
// address.
func Registry(t testing.TB) string {
	t.Helper()
	need(t, "docker-registry", "docker-registry")
	dir := directory(t)
	address := ownAddress(t)
	require.NoError(t, os.WriteFile(dir+"/users", []byte(User+":"+passwordHash+"\n"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/config.yml", fmt.Appendf(nil, `version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %s/data}}
http: {addr: %s}
auth: {htpasswd: {realm: test, path: %s/users}}
`, dir, address, dir), 0o600))
	start(t, dir, exec.Command("docker-registry", "serve", dir+"/config.yml"), func() {})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/v2/")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusUnauthorized
	}, longest, 20*time.Millisecond, "the registry does not start")
	return address
}

// ownAddress is an address for a program that does not tell which port it has been given. The host is
// this process's own, where nobody else is given the port before the program has it.
func ownAddress(t testing.TB) string {
	l, err := net.Listen("tcp", ownHost()+":0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func ownHost() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&0x7f, pid>>8&0xff, pid&0xff)
}

// Publish pushes an image to a registry under a name, REGISTRY/REPOSITORY, with the tag 1,
// forgets that name, and returns the digest.
func (e *Engine) Publish(t testing.TB, image, name string) (digest string) {
	t.Helper()
	status, answer := e.do("POST", "/images/"+image+"/tag?"+url.Values{"repo": {name}, "tag": {"1"}}.Encode(), nil)
	require.Equal(t, http.StatusCreated, status, answer)
	auth := base64.URLEncoding.EncodeToString([]byte(`{"username":"` + User + `","password":"` + Password + `"}`))
	status, answer = e.do("POST", "/images/"+name+"/push?tag=1", nil, "X-Registry-Auth", auth)
	require.Equal(t, http.StatusOK, status, answer)
	require.NotContains(t, answer, "errorDetail")
	digest = regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(answer[strings.Index(answer, "digest: "):])
	e.Forget(t, name+":1")
	return digest
}

// Tag gives an image a second name.
func (e *Engine) Tag(t testing.TB, image, name string) {
	t.Helper()
	repository, tag, _ := strings.Cut(name, ":")
	status, answer := e.do("POST", "/images/"+image+"/tag?"+url.Values{"repo": {repository}, "tag": {tag}}.Encode(), nil)
	require.Equal(t, http.StatusCreated, status, answer)
}

// Save is an archive of an image, by all its names.
func (e *Engine) Save(t testing.TB, image string) []byte {
	t.Helper()
	status, text := e.do("GET", "/images/"+image+"/get", nil)
	require.Equal(t, http.StatusOK, status)
	return []byte(text)
}

// Has reports whether the engine has an image.
func (e *Engine) Has(image string) bool {
	status, _ := e.do("GET", "/images/"+image+"/json", nil)
	return status == http.StatusOK
}

// Forget has the engine forget an image's name, if it has it.
func (e *Engine) Forget(t testing.TB, name string) {
	t.Helper()
	status, answer := e.do("DELETE", "/images/"+name, nil)
	require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, status, answer)
}

// Container is one of the engine's.
type Container struct {
	ID     string `json:"Id"`
	Names  []string
	State  string
	Labels map[string]string
}

// Containers are all that the engine has, also those that have ended.
func (e *Engine) Containers(t testing.TB) (all []Container) {
	t.Helper()
	status, text := e.do("GET", "/containers/json?all=1", nil)
	require.Equal(t, http.StatusOK, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	return all
}

// Processes is how many a container has: those in the namespace of its first one.
func (e *Engine) Processes(t testing.TB, container string) (n int) {
	t.Helper()
	own, err := os.Readlink("/proc/" + e.Pid(t, container) + "/ns/pid")
	require.NoError(t, err)
	all, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	require.NoError(t, err)
	for _, path := range all {
		if namespace, err := os.Readlink(path); err == nil && namespace == own {
			n++
		}
	}
	return n
}

// Pid is the number of a container's first process.
func (e *Engine) Pid(t testing.TB, container string) string {
	t.Helper()
	return strconv.Itoa(e.state(t, container).Pid)
}

// OOMKilled is whether a container was killed for its memory, as the engine knows it.
func (e *Engine) OOMKilled(t testing.TB, container string) bool {
	t.Helper()
	return e.state(t, container).OOMKilled
}

type containerState struct {
	Pid       int
	OOMKilled bool
}

func (e *Engine) state(t testing.TB, container string) containerState {
	t.Helper()
	status, text := e.do("GET", "/containers/"+container+"/json", nil)
	require.Equal(t, http.StatusOK, status, text)
	var answer struct{ State containerState }
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	return answer.State
}

// RemoveAll removes all containers, by force.
func (e *Engine) RemoveAll(t testing.TB) {
	t.Helper()
	if status, _ := e.do("GET", "/_ping", nil); status != http.StatusOK {
		return
	}
	for _, c := range e.Containers(t) {
		if status, text := e.do("DELETE", "/containers/"+c.ID+"?force=1&v=1", nil); status >= 300 && status != http.StatusNotFound {
			t.Errorf("remove container %s: %s", c.ID, text)
		}
	}
}

// Proxy passes what a listener accepts on to the engine, until the listener is closed.
func (e *Engine) Proxy(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = in.Close() }()
			out, err := net.Dial("unix", e.Socket)
			if err != nil {
				return
			}
			defer func() { _ = out.Close() }()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.(*net.UnixConn).CloseWrite()
			}()
			_, _ = io.Copy(in, out)
		}()
	}
}
