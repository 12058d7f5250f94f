package host_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// helperGuest is a guest that runs a helper in every operation of ops.
func helperGuest(r *wasmnodev1.ProcessRunRequest, ops ...string) *modtest.Module {
	m := processGuest(nil, ops...)
	message := mustMarshal(r)
	for _, op := range ops {
		for i := range m.Funcs {
			if m.Funcs[i].Export == op {
				m.Funcs[i].Body = ask(fnStart, len(message))
			}
		}
	}
	m.Data[len(m.Data)-1].Bytes = message
	m.Imports[fnStart].Name = abi.FuncProcessRun
	m.Pages = 32 // for the most that a helper answers
	return m
}

// runHelper runs one in the fingerprint.
func runHelper(t *testing.T, w *world, grant host.HelperGrant, r *wasmnodev1.ProcessRunRequest) []byte {
	t.Helper()
	p := w.ready(t, helperGuest(r, abi.OpDriverFingerprint).Bytes(), host.Grants{Process: host.ProcessGrant{Helpers: []host.HelperGrant{grant}}})
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	return out
}

// anyScript permits the shell.
var anyScript = host.HelperGrant{Command: "/bin/sh", Args: []string{"-c", "*"}}

func TestAHelperRunsInAnyOperation(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	grant := anyScript
	grant.Env = map[string]string{"GREETING": "hello"}
	out := runHelper(t, newWorld(t, host.Limits{}), grant, &wasmnodev1.ProcessRunRequest{
		Command: "/bin/sh", Args: []string{"-c", `echo "$GREETING $(cat)$SECRET"; echo oops >&2; exit 5`}, Stdin: []byte("you"),
	})
	code, message := decodeAnswer(t, out)
	require.Zero(t, code, string(message))
	var ended wasmnodev1.ProcessRunResponse
	require.NoError(t, ended.UnmarshalVT(message))
	require.Equal(t, wasmnodev1.ProcessRunResponse{ExitCode: 5, Stdout: []byte("hello you\n"), Stderr: []byte("oops\n")}, ended)
}

func TestAHelperIsBounded(t *testing.T) {
	w := newWorld(t, host.Limits{})
	out := runHelper(t, w, anyScript, &wasmnodev1.ProcessRunRequest{
		Command: "/bin/sh", Args: []string{"-c", "head -c 5000000 /dev/zero; head -c 10 /dev/zero >&2"}, OutputMaxBytes: 100,
	})
	_, message := decodeAnswer(t, out)
	var ended wasmnodev1.ProcessRunResponse
	require.NoError(t, ended.UnmarshalVT(message))
	require.Zero(t, ended.ExitCode)
	require.Len(t, ended.Stdout, 100)
	require.True(t, ended.StdoutCut)
	require.Len(t, ended.Stderr, 10)
	require.False(t, ended.StderrCut)

	for name, c := range map[string]struct {
		asked      uint64
		wrote, has string
		cut        bool
	}{
		"as much as is answered":    {0, "65536", "65536", false},
		"a byte more":               {0, "65537", "65536", true},
		"as much as can be":         {1 << 20, "1048576", "1048576", false},
		"a byte more than could be": {1 << 20, "1048577", "1048576", true},
	} {
		many := make([]string, 256) // the most that there can be
		copy(many, []string{"-c", `head -c $1 /dev/zero; exit $#`, "sh", c.wrote})
		grant := host.HelperGrant{Command: "/bin/sh", Args: append(many[:4:4], "...")}
		_, message := decodeAnswer(t, runHelper(t, w, grant, &wasmnodev1.ProcessRunRequest{Command: "/bin/sh", Args: many, OutputMaxBytes: c.asked}))
		ended.Reset()
		require.NoError(t, ended.UnmarshalVT(message), name)
		require.EqualValues(t, 253, ended.ExitCode, name)
		require.Equal(t, c.has, strconv.Itoa(len(ended.Stdout)), name)
		require.Equal(t, c.cut, ended.StdoutCut, name)
	}

	for name, c := range map[string]struct {
		r    *wasmnodev1.ProcessRunRequest
		code abi.Code
		says string
	}{
		"time":          {&wasmnodev1.ProcessRunRequest{Args: []string{"-c", "sleep 1000"}, TimeoutMs: 50}, abi.DeadlineExceeded, "helper /bin/sh ran for more than 50ms"},
		"too much time": {&wasmnodev1.ProcessRunRequest{TimeoutMs: 300_001}, abi.InvalidArgument, "timeout_ms of 300001: the limit is 300000"},
		"negative time": {&wasmnodev1.ProcessRunRequest{TimeoutMs: -1}, abi.InvalidArgument, "timeout_ms"},
		"endless time":  {&wasmnodev1.ProcessRunRequest{TimeoutMs: 1<<63 - 1}, abi.InvalidArgument, "timeout_ms"},
		"memory":        {&wasmnodev1.ProcessRunRequest{MemoryMaxBytes: 2<<30 + 1}, abi.InvalidArgument, "memory_max_bytes of 2147483649"},
		"little memory": {&wasmnodev1.ProcessRunRequest{MemoryMaxBytes: 4<<20 - 1}, abi.InvalidArgument, "memory_max_bytes of 4194303"},
		"output":        {&wasmnodev1.ProcessRunRequest{OutputMaxBytes: 1<<20 + 1}, abi.InvalidArgument, "output_max_bytes of 1048577"},
		"arguments":     {&wasmnodev1.ProcessRunRequest{Args: make([]string, 257)}, abi.InvalidArgument, "257 arguments, the limit is 256"},
		"a zero":        {&wasmnodev1.ProcessRunRequest{Args: []string{"-c", "a\x00b"}}, abi.InvalidArgument, "zero byte"},
		"no path":       {&wasmnodev1.ProcessRunRequest{Command: "sh"}, abi.InvalidArgument, "not the absolute path of a program"},
		"a detour":      {&wasmnodev1.ProcessRunRequest{Command: "/usr/../bin/sh"}, abi.InvalidArgument, "not the absolute path of a program"},
		"not there":     {&wasmnodev1.ProcessRunRequest{Command: "/no/such"}, abi.PermissionDenied, "is not granted"},
	} {
		if c.r.Command == "" {
			c.r.Command = "/bin/sh"
		}
		refused := answeredError(t, runHelper(t, w, anyScript, c.r))
		require.Equal(t, c.code, refused.Code, "%s: %s", name, refused.Message)
		require.Contains(t, refused.Message, c.says, name)
	}
}

// A guest that runs helpers without end is slowed down, and no other plugin with it.
func TestAPluginsHelpersAreBounded(t *testing.T) {
	w := newWorld(t, host.Limits{})
	r := &wasmnodev1.ProcessRunRequest{Command: "/bin/sh", Args: []string{"-c", "sleep 1000"}}
	p := w.ready(t, helperGuest(r, abi.OpDriverFingerprint).Bytes(), host.Grants{Process: host.ProcessGrant{Helpers: []host.HelperGrant{anyScript}}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _ = p.Call(ctx, abi.OpDriverFingerprint, nil, nil) })
	}
	require.Eventually(t, func() bool { return p.Stats().AtWork == 8 }, testTimeout, time.Millisecond)
	refusals := map[string]bool{} // which of the two comes is a matter of how fast the calls are
	for began := time.Now(); len(refusals) < 2 && time.Since(began) < testTimeout; {
		short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		out, err := p.Call(short, abi.OpDriverFingerprint, nil, nil)
		end()
		if err != nil {
			continue // it had a place still
		}
		refused := answeredError(t, out)
		require.True(t, refused.Recoverable)
		require.Equal(t, abi.ResourceExhausted, refused.Code)
		refusals[refused.Message] = true
	}
	require.Contains(t, refusals, "8 helpers run, which is the limit")
	require.Contains(t, refusals, "more than 10 helpers a second")
	cancel()
	wg.Wait()
	require.GreaterOrEqual(t, p.Stats().Helpers["failed"], uint64(8))
}

func TestWhichArgumentsAGrantStandsFor(t *testing.T) {
	for _, c := range []struct {
		granted  string
		yes, not []string // arguments apart by spaces; "_" is an empty one
	}{
		{"", []string{""}, []string{"a", "_", "-a"}},
		{"image inspect *", []string{"image inspect a/b:1", "image inspect ../a"},
			[]string{"image inspect", "image inspect _", "image inspect -f", "image inspect --format={{.}}", "image inspect a b", "image rm a", "-image inspect a", "image inspect -"}},
		{"ps ...", []string{"ps", "ps a", "ps a b _"}, []string{"", "ps -a", "ps a --all", "px"}},
		{"--root=/srv/*/disk.img", []string{"--root=/srv/a/disk.img"},
			[]string{"--root=/srv/../disk.img", "--root=/srv//disk.img", "--root=/srv/a/b/disk.img", "--root=/srv/./disk.img", "--root=/srv/a/disk.imgx", "--root=/srv/a,b/disk.img", "-x=/srv/a/disk.img"}},
		{"/srv/*", []string{"/srv/a", "/srv/"}, []string{"/srv/..", "/srv/.", "/srv/a/b", "/srv"}},
		{"file=*,format=raw", []string{"file=a,format=raw"}, []string{"file=a,snapshot=on,format=raw", "file=/etc/shadow,format=raw", "file=..,format=raw"}},
		{"*.img", []string{"a.img", "..img"}, []string{"-a.img", "a/b.img", "../a.img"}},
		{"-*", []string{"-a", "--b"}, []string{"a", "--b=c"}},
		{"a.c [x] (y)", []string{"a.c [x] (y)"}, []string{"abc x y", "a.c x y"}},
		{"a*c", []string{"ac", "abc", "a\nc"}, []string{"abcd", "xac"}},
	} {
		split := func(text string) []string {
			args := strings.Split(text, " ")
			if text == "" {
				return nil
			}
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "_", "")
			}
			return args
		}
		grant := host.ProcessGrant{Helpers: []host.HelperGrant{{Command: "/other", Args: []string{"..."}}, {Command: "/x", Args: split(c.granted)}}}
		for _, args := range c.yes {
			require.True(t, host.HelperGranted(grant, "/x", split(args)...), "%q: %q", c.granted, args)
		}
		for _, args := range c.not {
			require.False(t, host.HelperGranted(grant, "/x", split(args)...), "%q: %q", c.granted, args)
		}
		require.False(t, host.HelperGranted(grant, "/y", split(c.granted)...))
	}
}

// What is refused names the grant of just that, in which the plugin can write no pattern.
func TestAHelperThatWasNotGrantedIsNotRun(t *testing.T) {
	w := newWorld(t, host.Limits{})
	for want, args := range map[string][]string{
		`{ args = ["-c", "exit 0"] }`:                  {"-c", "exit 0"},
		`{ args = ["…", "…", "a\\u000ab"] }`:           {"a*", "...", "a\nb"},
		`{ args = ["$${env.X}", "%%{ if }", "\"\\"] }`: {"${env.X}", "%{ if }", `"\`},
		`{ }`: nil,
	} {
		p := w.ready(t, helperGuest(&wasmnodev1.ProcessRunRequest{Command: "/bin/sh", Args: args}, abi.OpDriverFingerprint).Bytes(),
			host.Grants{Process: host.ProcessGrant{Helpers: []host.HelperGrant{{Command: "/bin/sh", Args: []string{"-x"}}}}})
		out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		refused := answeredError(t, out)
		require.Equal(t, abi.PermissionDenied, refused.Code)
		require.Equal(t, `running /bin/sh with these arguments is not granted: add plugin "test" { grant { process { helper "/bin/sh" `+want+` } } }`, refused.Message)
		require.Equal(t, []string{refused.Message}, p.Stats().NotGranted)
		require.Len(t, p.Stats().WouldGrant, 1)
		require.True(t, strings.HasSuffix(refused.Message, ": add "+p.Stats().WouldGrant[0]))
		_, list, ok := strings.Cut(want, "args = ")
		if ok {
			_, diags := hclsyntax.ParseExpression([]byte(strings.TrimSuffix(list, " }")), "", hcl.InitialPos)
			require.False(t, diags.HasErrors(), "%v", diags)
		}
	}
	p := w.load(t, helperGuest(&wasmnodev1.ProcessRunRequest{}, abi.OpDriverFingerprint).Bytes())
	require.EqualError(t, p.Configure(t.Context(), host.Grants{}, nil),
		`needs grant wasmnode:process/v1: add plugin "test" { grant { process { helper "/path/to/program" { args = ["ARGUMENT"] } } } }, naming the programs that it runs`)
	require.NoError(t, p.Configure(t.Context(), host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/*"}}}, []byte("{}")))
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.PermissionDenied, answeredError(t, out).Code, "tasks' commands are not helpers")
	grant := host.HelperGrant{Command: "/bin/x", Args: []string{"a b", "*"}, User: "nobody", Env: map[string]string{"SECRET": "x"}}
	require.NoError(t, p.Configure(t.Context(), host.Grants{Process: host.ProcessGrant{Helpers: []host.HelperGrant{grant}}}, []byte("{}")))
	require.Contains(t, p.Granted(), `wasmnode:process/v1(helper:"/bin/x a b * as nobody")`)
}

func TestWhatAPluginDoesWithoutIsRefusedWhenItIsAskedFor(t *testing.T) {
	w := newWorld(t, host.Limits{})
	m := helperGuest(&wasmnodev1.ProcessRunRequest{Command: "/bin/sh", Args: []string{"-c", "exit 0"}}, abi.OpDriverFingerprint)
	describe := mustMarshal(&wasmnodev1.DriverDescribeResponse{Name: "test", Version: "1.0.0", OptionalCapabilities: []string{abi.ModuleProcess, "wasmnode:none/v1"}})
	m.Data[0].Bytes = describe
	for i := range m.Funcs {
		if m.Funcs[i].Export == abi.OpDriverDescribe {
			m.Funcs[i].Body = answer(describeAt, len(describe))
		}
	}
	p := w.ready(t, m.Bytes(), host.Grants{})
	require.Empty(t, p.Spec().Needs(p.Description()))
	require.Len(t, p.Spec().Needs(&wasmnodev1.DriverDescribeResponse{Name: "test"}), 1)
	require.NotContains(t, strings.Join(p.Granted(), " "), abi.ModuleProcess)
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	refused := answeredError(t, out)
	require.Equal(t, abi.PermissionDenied, refused.Code)
	require.Equal(t, `running /bin/sh with these arguments is not granted: add plugin "test" { grant { process { helper "/bin/sh" { args = ["-c", "exit 0"] } } } }`, refused.Message)
	require.Equal(t, []string{refused.Message}, p.Stats().NotGranted)
	grant := host.HelperGrant{Command: "/bin/sh", Args: []string{"-c", "exit 0"}}
	require.NoError(t, p.Configure(t.Context(), host.Grants{Process: host.ProcessGrant{Helpers: []host.HelperGrant{grant}}}, []byte("{}")))
	require.Contains(t, strings.Join(p.Granted(), " "), abi.ModuleProcess)
}
