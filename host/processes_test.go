package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process"
)

// processGuest is a guest that asks to start a process, in every operation of ops.
func processGuest(r *wasmnodev1.ProcessStartRequest, ops ...string) *modtest.Module {
	message, bodies := mustMarshal(r), map[string][]byte{}
	for _, op := range ops {
		bodies[op] = ask(fnStart, len(message))
	}
	m := guest(message, bodies)
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleProcess, abi.FuncProcessStart
	return m
}

// startProcess calls such a guest's start_task.
func startProcess(t *testing.T, w *world, scope *host.TaskScope, grant host.ProcessGrant, r *wasmnodev1.ProcessStartRequest) []byte {
	t.Helper()
	p := w.ready(t, processGuest(r, abi.OpDriverStartTask).Bytes(), host.Grants{Process: grant})
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	return out
}

// A request to run a shell command without isolation.
func shell(command string) *wasmnodev1.ProcessStartRequest {
	return &wasmnodev1.ProcessStartRequest{
		Command: "/bin/sh", Args: []string{"-c", command}, Isolation: wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE,
	}
}

func TestAProcessStartsAsTheTasksWorkload(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	r := shell(`echo "$WHO in $(pwd)"; exit 5`)
	r.Env = map[string]string{"WHO": "me"}
	code, message := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r))
	require.Zero(t, code)
	var answer wasmnodev1.ProcessStartResponse
	require.NoError(t, answer.UnmarshalVT(message))
	require.Equal(t, scope.Config.Id, answer.WorkloadId)
	exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	require.Equal(t, 5, exit.ExitCode)
	stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
	require.NoError(t, err)
	require.Equal(t, "me in "+scope.Config.Directories.Task+"\n", string(stdout))
}

// Each start that fails has cost the node something that the plugin has not.
func TestACallTriesABoundedNumberOfStarts(t *testing.T) {
	process := mustMarshal(&wasmnodev1.ProcessStartRequest{Command: "/no/such", Isolation: wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE})
	wasm := mustMarshal(&wasmnodev1.WasmStartRequest{Module: "no-such"})
	for message, module := range map[string]*modtest.Module{string(process): processGuest(nil), string(wasm): guest(nil, nil)} {
		for before, code := range map[int32]abi.Code{31: abi.NotFound, 32: abi.ResourceExhausted} {
			try := modtest.Code(modtest.I32Const(messageAt), modtest.I32Const(int32(len(message))), modtest.Call(fnStart), modtest.Drop)
			g := guest([]byte(message), map[string][]byte{abi.OpDriverStartTask: modtest.Code(modtest.Times(before, 1, try), ask(fnStart, len(message)))})
			g.Imports = module.Imports
			p := newWorld(t, host.Limits{}).ready(t, g.Bytes(), host.Grants{Process: host.ProcessGrant{Commands: []string{"*"}}})
			for range 2 { // each call anew
				out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, taskScope(t))
				require.NoError(t, err)
				refused := answeredError(t, out)
				require.Equal(t, code, refused.Code, refused.Message)
			}
		}
	}
}

func TestAProcessWithANameStandsBesideTheTasksOwn(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	longest := strings.Repeat("a", 32)
	r := shell("echo beside; echo wrong >&2")
	for _, name := range []string{"", "virtiofsd-1", longest} {
		r.Name = name
		code, message := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r))
		require.Zero(t, code, string(message))
	}
	code, _ := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r))
	require.Equal(t, abi.AlreadyExists, abi.Code(code))
	for _, name := range []string{"virtiofsd-1", longest} {
		status, err := w.workloads.Inspect(t.Context(), scope.Config.Id+"/"+name)
		require.NoError(t, err)
		require.Equal(t, scope.Config.Id, status.Beside)
		_, err = w.workloads.Wait(t.Context(), status.ID)
		require.NoError(t, err)
		stdout, err := os.ReadFile(scope.Config.StdoutPath + "." + name + ".0")
		require.NoError(t, err)
		require.Equal(t, "beside\n", string(stdout))
		stderr, err := os.ReadFile(scope.Config.StderrPath + "." + name + ".0")
		require.NoError(t, err)
		require.Equal(t, "wrong\n", string(stderr))
	}
}

func TestAProcessIsKeptOnTheTasksCores(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("with one processor there is nothing to choose")
	}
	w := newWorld(t, host.Limits{})
	seen := map[string]bool{}
	for _, cores := range [][]uint32{nil, {0}, {1}} {
		scope := taskScope(t)
		scope.Config.Id = fmt.Sprint("alloc/web/", cores)
		scope.Config.Resources = &wasmnodev1.Resources{Cores: cores}
		code, _ := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, shell(`grep Cpus_allowed_list /proc/self/status`)))
		require.Zero(t, code)
		_, err := w.workloads.Wait(t.Context(), scope.Config.Id)
		require.NoError(t, err)
		stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
		require.NoError(t, err)
		seen[string(stdout)] = true
	}
	require.Len(t, seen, 3)
}

func TestAProcessHasTheBoundsAndTheInputThatItsDriverAsksFor(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	put(t, scope.Config.Directories.Task, "local/in", []byte("hello\n"))
	r := shell(`ulimit -n; cat /proc/self/oom_score_adj -`)
	r.Limits, r.OomScoreAdj, r.Stdin = []*wasmnodev1.ProcessLimit{{Name: "nofile", Soft: 77, Hard: 78}}, 200, "local/in"
	code, message := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r))
	require.Zero(t, code, string(message))
	_, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
	require.NoError(t, err)
	require.Equal(t, "77\n200\nhello\n", string(stdout))
}

// TestAnInputThatIsNoFileOfTheTaskIsRefused has the task plant what leads out of it, or holds up who opens it.
func TestAnInputThatIsNoFileOfTheTaskIsRefused(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"a link out": func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a pipe":     func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a device":   func(path string) error { return os.Symlink("/dev/ptmx", path) },
		"nothing":    func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w, scope, r := newWorld(t, host.Limits{}), taskScope(t), shell("cat")
			require.NoError(t, plant(filepath.Join(scope.Config.Directories.Task, "in")))
			r.Stdin = "in"
			refused := answeredError(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"/bin/*"}}, r))
			require.Contains(t, []abi.Code{abi.InvalidArgument, abi.NotFound}, refused.Code)
			require.Contains(t, refused.Message, "standard input ")
		})
	}
}

func TestAProcessMayUseItsTaskAndItsPaths(t *testing.T) {
	if err := process.CheckIsolation(workload.IsolationPaths); err != nil {
		t.Skip("this machine cannot restrict processes to paths: ", err)
	}
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	scope.Config.Directories.Shared = t.TempDir()
	r := shell(`echo a >a && cat a; echo b >"$SHARED/b" && cat "$SHARED/b"; head -c 1 /usr/bin/sh >/dev/null && echo usr; cat /etc/passwd || echo no`)
	r.Env = map[string]string{"SHARED": scope.Config.Directories.Shared, "PATH": "/usr/bin"}
	r.Isolation = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		r.Paths = append(r.Paths, &wasmnodev1.ProcessPath{Path: dir, Rights: "rx"})
	}
	code, message := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{
		Commands: []string{"/bin/*"}, Isolation: workload.IsolationPaths, Paths: []string{"rx:/usr", "rx:/bin", "rx:/lib", "rx:/lib64"},
	}, r))
	require.Zero(t, code, string(message))
	_, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
	require.NoError(t, err)
	require.Equal(t, "a\nb\nusr\nno\n", string(stdout))
}

func TestACallReportsThatTheTaskHasAWorkload(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	has := func(grant host.ProcessGrant) bool {
		var did host.Started
		p := w.ready(t, processGuest(shell("sleep 1000"), abi.OpDriverStartTask).Bytes(), host.Grants{Process: grant})
		// The guest hands on the host's answer, which is not one of this operation's.
		err := p.Invoke(t.Context(), host.Call{
			Op: abi.OpDriverStartTask, Task: scope.Config, Started: &did,
			Request: &wasmnodev1.DriverStartTaskRequest{}, Answer: &wasmnodev1.DriverStartTaskResponse{},
		})
		require.Error(t, err)
		return did.Own
	}
	require.False(t, has(host.ProcessGrant{Commands: []string{"/opt/*"}}), "the start is refused")
	require.True(t, has(host.ProcessGrant{Commands: []string{"/bin/*"}}))
	require.True(t, has(host.ProcessGrant{Commands: []string{"/bin/*"}}), "it is there already")
}

// failing is a runtime that starts nothing.
type failing struct {
	workload.Runtime
	err error
}

func (f failing) Start(context.Context, *workload.Spec) error { return f.err }

func TestACallTellsThatWorkloadsAreLost(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	unavailable := abi.NewRecoverableError(abi.Unavailable, "not now")
	lost := failing{w.workloads, errors.Join(unavailable, workload.ErrLost)}
	for name, c := range map[string]struct {
		runtime workload.Runtime
		grant   string
		want    host.Started
	}{
		"lost":    {lost, "/bin/*", host.Started{Lost: true}},
		"refused": {lost, "/opt/*", host.Started{}},
		"failed":  {failing{w.workloads, unavailable}, "/bin/*", host.Started{}},
		"started": {w.workloads, "/bin/*", host.Started{Own: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := w.hostOf(c.runtime).Load(t.Context(), host.NewSource(processGuest(shell("sleep 1000"), abi.OpDriverStartTask).Bytes()))
			require.NoError(t, err)
			defer p.Close()
			require.NoError(t, p.Configure(t.Context(), host.Grants{Process: host.ProcessGrant{Commands: []string{c.grant}}}, []byte("{}")))
			var did host.Started
			require.Error(t, p.Invoke(t.Context(), host.Call{
				Op: abi.OpDriverStartTask, Task: scope.Config, Started: &did,
				Request: &wasmnodev1.DriverStartTaskRequest{}, Answer: &wasmnodev1.DriverStartTaskResponse{},
			}))
			require.Equal(t, c.want, did)
		})
	}
}

func TestACommandIsFoundInTheTaskAndOnThePath(t *testing.T) {
	for name, c := range map[string]struct{ command, dir, says string }{
		"absolute":             {"/bin/pwd", "/", "/"},
		"below the task":       {"local/tool", "", "tool in TASK"},
		"the task's own":       {"tool", "local", "tool in TASK/local"},
		"in the task's parent": {"other", "", "other in TASK"},
		"on the PATH":          {"pwd", "", "TASK"},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), taskScope(t)
			d := scope.Config.Directories
			d.Local = filepath.Join(d.Task, "local")
			for _, path := range []string{"local/tool", "other"} {
				require.NoError(t, os.Chmod(put(t, d.Task, path, []byte("#!/bin/sh\necho ${0##*/} in $(pwd)\n")), 0o755))
			}
			r := &wasmnodev1.ProcessStartRequest{Command: c.command, Dir: c.dir, Isolation: wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE}
			code, message := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"*"}}, r))
			require.Zero(t, code, string(message))
			_, err := w.workloads.Wait(t.Context(), scope.Config.Id)
			require.NoError(t, err)
			stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(c.says, "TASK", d.Task)+"\n", string(stdout))
		})
	}
}

func TestAProcessThatWasNotGrantedIsNotStarted(t *testing.T) {
	own, err := user.Current()
	require.NoError(t, err)
	some := host.ProcessGrant{Commands: []string{"/bin/sh", "/usr/bin/*"}}
	any := host.ProcessGrant{Commands: []string{"*"}}
	paths := host.ProcessGrant{Commands: any.Commands, Isolation: workload.IsolationPaths, Paths: []string{"x:/", "rx:/usr"}}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/etc", link))
	fix := func(setting string) string {
		return fmt.Sprintf(`is not granted: add plugin "test" { grant { process { %s } } }`, setting)
	}
	for name, c := range map[string]struct {
		grant  host.ProcessGrant
		change func(*wasmnodev1.ProcessStartRequest)
		code   abi.Code
		says   string
	}{
		"another command":       {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "/sbin/init" }, abi.PermissionDenied, "command /sbin/init " + fix(`commands = ["/sbin/init"]`)},
		"with that beginning":   {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "/bin/shred" }, abi.PermissionDenied, "command /bin/shred is not granted"},
		"below a directory":     {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "/usr/bin/a/b" }, abi.PermissionDenied, "command /usr/bin/a/b is not granted"},
		"the directory":         {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "/usr/bin" }, abi.PermissionDenied, "command /usr/bin is not granted"},
		"by a detour":           {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "/usr/bin/../sbin/x" }, abi.PermissionDenied, "command /usr/sbin/x is not granted"},
		"of the task":           {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "./sh" }, abi.PermissionDenied, "/sh is not granted"},
		"out of the task":       {any, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "../sh" }, abi.PermissionDenied, "path ../sh leads out of the task's directory"},
		"nowhere":               {any, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "no-such-command" }, abi.NotFound, "command no-such-command is neither in the task's directory nor on the node's PATH"},
		"no command":            {any, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "" }, abi.InvalidArgument, "is not a command"},
		"a directory elsewhere": {any, func(r *wasmnodev1.ProcessStartRequest) { r.Dir = ".." }, abi.PermissionDenied, "leads out of the task's directory"},
		"control in a command":  {some, func(r *wasmnodev1.ProcessStartRequest) { r.Command = "/\x1b[2J" }, abi.PermissionDenied, `/\u001b[2J`},
		"another user":          {any, func(r *wasmnodev1.ProcessStartRequest) { r.User = "games" }, abi.PermissionDenied, "user games " + fix(`users = ["games"]`)},
		"another group": {host.ProcessGrant{Commands: any.Commands, Users: []string{"games"}}, func(r *wasmnodev1.ProcessStartRequest) { r.User = "games:root" },
			abi.PermissionDenied, "user games:root " + fix(`users = ["games:root"]`)},
		"the node's own user": {host.ProcessGrant{Commands: any.Commands, Users: []string{"games"}}, func(*wasmnodev1.ProcessStartRequest) {},
			abi.PermissionDenied, "user " + own.Username + " " + fix(fmt.Sprintf("users = [%q]", own.Username))},
		"too little isolation": {host.ProcessGrant{Commands: any.Commands, Isolation: workload.IsolationFull}, func(*wasmnodev1.ProcessStartRequest) {},
			abi.PermissionDenied, "isolation none " + fix(`isolation = "none"`)},
		"a capability": {any, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.AddCapabilities = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL, []string{"CAP_NET_RAW"}
		}, abi.PermissionDenied, "capability net_raw " + fix(`capabilities = ["net_raw"]`)},
		"another capability": {host.ProcessGrant{Commands: any.Commands, Capabilities: []string{"net_raw"}}, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.AddCapabilities = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL, []string{"net_raw", "sys_admin"}
		}, abi.PermissionDenied, "capability sys_admin is not granted"},
		"all capabilities": {any, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.AddCapabilities = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL, []string{"all"}
		}, abi.InvalidArgument, `"all" is not one of Linux's capabilities`},
		"too many capabilities": {any, func(r *wasmnodev1.ProcessStartRequest) { r.DropCapabilities = make([]string, 42) }, abi.InvalidArgument, "more than 41 capabilities"},
		"a capability without isolation": {any, func(r *wasmnodev1.ProcessStartRequest) { r.DropCapabilities = []string{"all"} },
			abi.InvalidArgument, "capabilities are for processes with full isolation"},
		"too many limits": {any, func(r *wasmnodev1.ProcessStartRequest) { r.Limits = make([]*wasmnodev1.ProcessLimit, 17) }, abi.InvalidArgument, "more than 16 limits"},
		"a limit that is none": {any, func(r *wasmnodev1.ProcessStartRequest) { r.Limits = []*wasmnodev1.ProcessLimit{{Name: "\x1b"}} },
			abi.InvalidArgument, `unknown limit "\\u001b"`},
		"an input elsewhere": {any, func(r *wasmnodev1.ProcessStartRequest) { r.Stdin = "../x" }, abi.PermissionDenied, "path ../x leads out of the task's directory"},
		"another's input":    {any, func(r *wasmnodev1.ProcessStartRequest) { r.Stdin = "/etc/passwd" }, abi.PermissionDenied, "standard input /etc/passwd is not in the task's directory"},
		"a library":          {some, func(r *wasmnodev1.ProcessStartRequest) { r.Env = map[string]string{"A": "1", "LD_PRELOAD": "/x.so"} }, abi.PermissionDenied, "variable LD_PRELOAD, by which /bin/sh runs other code, " + fix(`commands = ["*"]`)},
		"an auditor":         {some, func(r *wasmnodev1.ProcessStartRequest) { r.Env = map[string]string{"LD_AUDIT": "/x.so"} }, abi.PermissionDenied, "variable LD_AUDIT, by which"},
		"converters":         {some, func(r *wasmnodev1.ProcessStartRequest) { r.Env = map[string]string{"GCONV_PATH": "/x"} }, abi.PermissionDenied, "variable GCONV_PATH, by which"},
		"no isolation where paths are the least": {host.ProcessGrant{Commands: any.Commands, Isolation: workload.IsolationPaths}, func(*wasmnodev1.ProcessStartRequest) {},
			abi.PermissionDenied, "isolation none " + fix(`isolation = "none"`)},
		"paths where full is the least": {host.ProcessGrant{Commands: any.Commands, Isolation: workload.IsolationFull}, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS
		}, abi.PermissionDenied, "isolation paths " + fix(`isolation = "paths"`)},
		"another path": {paths, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.Paths = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS, []*wasmnodev1.ProcessPath{{Path: "/usr/../etc", Rights: "r"}}
		}, abi.PermissionDenied, "path r:/etc " + fix(`paths = ["r:/etc"]`)},
		"another right": {paths, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.Paths = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS, []*wasmnodev1.ProcessPath{{Path: "/usr/lib", Rights: "rw"}}
		}, abi.PermissionDenied, "path rw:/usr/lib is not granted"},
		"a path that leads out": {host.ProcessGrant{Commands: any.Commands, Isolation: workload.IsolationPaths, Paths: []string{"r:" + filepath.Dir(link)}}, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.Paths = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS, []*wasmnodev1.ProcessPath{{Path: link, Rights: "r"}}
		}, abi.FailedPrecondition, "it leads out of " + filepath.Dir(link)},
		"too many paths": {any, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation, r.Paths = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS, make([]*wasmnodev1.ProcessPath, 129)
		}, abi.InvalidArgument, "more than 128 paths"},
		"a name in capitals":    {any, func(r *wasmnodev1.ProcessStartRequest) { r.Name = "Side" }, abi.InvalidArgument, `name "Side" of a workload`},
		"a name that leads out": {any, func(r *wasmnodev1.ProcessStartRequest) { r.Name = "../x" }, abi.InvalidArgument, `name "../x" of a workload`},
		"a name in two lines":   {any, func(r *wasmnodev1.ProcessStartRequest) { r.Name = "a\n" }, abi.InvalidArgument, `of a workload`},
		"a long name":           {any, func(r *wasmnodev1.ProcessStartRequest) { r.Name = strings.Repeat("a", 33) }, abi.InvalidArgument, "has 32 of those"},
		"no isolation said":     {any, func(r *wasmnodev1.ProcessStartRequest) { r.Isolation = 0 }, abi.InvalidArgument, "unknown isolation 0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, host.Limits{})
			r := shell("exit 0")
			c.change(r)
			refused := answeredError(t, startProcess(t, w, taskScope(t), c.grant, r))
			require.Equal(t, c.code, refused.Code, refused.Message)
			require.Contains(t, refused.Message, c.says)
			list, err := w.workloads.List(t.Context())
			require.NoError(t, err)
			require.Empty(t, list)
		})
	}
}

func TestAnyUserMayBeGranted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	for _, users := range [][]string{{"*"}, {"root", "nobody"}} {
		w, scope := newWorld(t, host.Limits{}), taskScope(t)
		r := shell("id -un")
		r.User, r.Dir = "nobody", "/"
		code, message := decodeAnswer(t, startProcess(t, w, scope, host.ProcessGrant{Commands: []string{"*"}, Users: users}, r))
		require.Zero(t, code, string(message))
		_, err := w.workloads.Wait(t.Context(), scope.Config.Id)
		require.NoError(t, err)
		stdout, err := os.ReadFile(scope.Config.StdoutPath + ".0")
		require.NoError(t, err)
		require.Equal(t, "nobody\n", string(stdout))
	}
}

func TestProcessesAreNotGrantedByDefault(t *testing.T) {
	p := newWorld(t, host.Limits{}).load(t, processGuest(shell("exit 0")).Bytes())
	err := p.Configure(t.Context(), host.Grants{Process: host.ProcessGrant{Users: []string{"*"}}}, nil)
	var missing *host.MissingGrantError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, abi.ModuleProcess, missing.Capability)
	require.EqualError(t, err, `needs grant wasmnode:process/v1: add plugin "test" { grant { process { commands = ["/path/to/program"] } } }, naming the programs that tasks may run`)
}

func TestAProcessIsStartedForATaskOnly(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, processGuest(shell("exit 0"), abi.OpDriverFingerprint).Bytes(), host.Grants{Process: host.ProcessGrant{Commands: []string{"*"}}})
	for _, scope := range []*host.TaskScope{nil, taskScope(t)} {
		out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, scope)
		require.NoError(t, err)
		require.Equal(t, abi.FailedPrecondition, answeredError(t, out).Code)
	}
	require.Contains(t, p.Granted(), "wasmnode:process/v1(commands:*)")
}

// What the node itself has set is no guest's code, and where any program may be run there is
// nothing to keep out.
func TestWhereAProgramMayLoadCodeFrom(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/the/nodes")
	for command, path := range map[string]string{"/bin/sh": "/the/nodes", "*": "/a/jobs"} {
		r := shell("exit 0")
		r.Env = map[string]string{"LD_LIBRARY_PATH": path}
		code, message := decodeAnswer(t, startProcess(t, newWorld(t, host.Limits{}), taskScope(t), host.ProcessGrant{Commands: []string{command}}, r))
		require.Zero(t, code, string(message))
	}
}

// TestAGrantThatIsTakenAwayIsGoneFromTheNextCallOn: with a configuration, without one, and
// with one that the plugin is refused.
func TestAGrantThatIsTakenAwayIsGoneFromTheNextCallOn(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	shellOnly := host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/sh"}}}
	p := w.load(t, processGuest(shell("exit 0"), abi.OpDriverStartTask).Bytes())
	start := func() abi.Code {
		t.Helper()
		out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
		require.NoError(t, err)
		code, message := decodeAnswer(t, out)
		if code == 0 {
			require.NoError(t, w.workloads.Destroy(t.Context(), scope.Config.Id))
			return 0
		}
		require.NotEmpty(t, message)
		return abi.Code(code)
	}
	p.Grant(t.Context(), shellOnly)
	require.Equal(t, abi.PermissionDenied, start(), "it is not configured, and has nothing")
	for range 2 {
		require.NoError(t, p.Configure(t.Context(), shellOnly, []byte("{}")))
		require.Zero(t, start())
		p.Grant(t.Context(), host.Grants{})
		require.Equal(t, abi.PermissionDenied, start())
		p.Grant(t.Context(), shellOnly)
		require.Zero(t, start())
		var missing *host.MissingGrantError
		require.ErrorAs(t, p.Configure(t.Context(), host.Grants{}, []byte("{}")), &missing)
		require.Equal(t, abi.PermissionDenied, start(), "though the configuration before is in force")
		require.NotContains(t, strings.Join(p.Granted(), " "), "process")
	}
}

// lateContext is a context in whose first look at its end something happens just after it.
type lateContext struct {
	context.Context
	once sync.Once
	then func()
}

func (c *lateContext) Err() error {
	err := c.Context.Err()
	c.once.Do(c.then)
	return err
}

// TestAConfigurationThatIsOutdatedGrantsNothing: who takes a grant away ends the configuring
// under way first, wherever that is.
func TestAConfigurationThatIsOutdatedGrantsNothing(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	all := host.Grants{Process: host.ProcessGrant{Commands: []string{"*"}}}
	other := host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/other"}}}
	p := w.load(t, processGuest(shell("exit 0"), abi.OpDriverStartTask).Bytes())
	require.NoError(t, p.Configure(t.Context(), other, []byte("{}")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outdated := &lateContext{Context: ctx, then: func() {
		cancel()
		p.Grant(t.Context(), other)
	}}
	require.ErrorIs(t, p.Configure(outdated, all, []byte("{}")), context.Canceled)
	p.Grant(ctx, all)
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	code, _ := decodeAnswer(t, out)
	require.Equal(t, abi.PermissionDenied, abi.Code(code))
	require.Contains(t, p.Granted(), "wasmnode:process/v1(commands:/bin/other)")
}
