package host_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/workload"
)

// busyboxImage is a directory with Debian's static busybox as its shell and nothing else.
func busyboxImage(t *testing.T) string {
	t.Helper()
	enginetest.Program(t, "busybox", "busybox-static")
	program, err := exec.LookPath("busybox")
	require.NoError(t, err)
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(put(t, dir, "bin/busybox", content), 0o755))
	require.NoError(t, os.Chmod(put(t, dir, "bin/sh", content), 0o755))
	put(t, dir, "etc/image", []byte("of busybox\n"))
	return dir
}

// inImage is a request to run a shell command as nobody in an image.
func inImage(t *testing.T, root, command string) *wasmnodev1.ProcessStartRequest {
	t.Helper()
	r := isolatedShell(t, command)
	r.Root, r.Env["PATH"] = root, "/bin"
	return r
}

// withMounts is what such a request needs.
func withMounts(mounts ...string) host.ProcessGrant {
	g := anyAsNobody
	g.Mounts = mounts
	return g
}

// imageScope is the scope of a task with what the node makes in its directory.
func imageScope(t *testing.T) *host.TaskScope {
	t.Helper()
	scope := isolatedScope(t)
	tmp := filepath.Join(scope.Config.Directories.Task, "tmp")
	require.NoError(t, os.Mkdir(tmp, 0o755))
	require.NoError(t, os.Chmod(tmp, 0o777))
	return scope
}

func TestAProcessHasAnImageAsItsRoot(t *testing.T) {
	image := busyboxImage(t)
	require.NoError(t, os.Symlink("../run/systemd/stub.conf", filepath.Join(image, "etc/resolv.conf")))
	node := t.TempDir()
	require.NoError(t, os.Chmod(node, 0o777))
	put(t, node, "data/in", []byte("of the node\n"))
	w, scope := newWorld(t, host.Limits{}), imageScope(t)
	volume := t.TempDir()
	put(t, volume, "file", []byte("of the volume\n"))
	scope.Config.Mounts = []*wasmnodev1.Mount{{TaskPath: "srv/volume", HostPath: volume, ReadOnly: true}}
	r := inImage(t, image, `
		busybox id -u; busybox cat /etc/image /data/data/in /srv/volume/file; test -d /usr || echo none of the node
		busybox cmp /etc/resolv.conf /resolv && echo resolves; busybox head -c 2 /dev/zero | busybox wc -c; busybox ls /proc | busybox grep -c '^1$'
		for d in /alloc /local /secrets /tmp /data /memory; do echo mine >$d/written || echo no $d; done
		test -e /local/../memory/written && (: >/ro/x) 2>/dev/null || echo read-only; (: >/etc/image) 2>/dev/null || echo not its own`)
	r.Mounts = []*wasmnodev1.ProcessMount{
		{Source: node, Target: "/data"}, {Source: "local", Target: "ro", ReadOnly: true}, {Target: "/memory", Tmpfs: true},
		{Source: "/etc/resolv.conf", Target: "/resolv", ReadOnly: true},
	}
	grant := withMounts("r:"+image, "rw:"+node, "r:/etc/resolv.conf")
	require.Equal(t, "65534\nof busybox\nof the node\nof the volume\nnone of the node\nresolves\n2\n1\nread-only\nnot its own", w.stdoutOf(t, scope, grant, r))
	d := scope.Config.Directories
	for _, dir := range []string{d.Shared, d.Local, d.Secrets, filepath.Join(d.Task, "tmp"), node} {
		require.FileExists(t, filepath.Join(dir, "written"))
	}
	entries, err := os.ReadDir(image)
	require.NoError(t, err)
	require.Len(t, entries, 2, "an image is not changed")
}

func TestARootInTheTasksDirectoryNeedsNoPath(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), imageScope(t)
	require.NoError(t, os.CopyFS(filepath.Join(scope.Config.Directories.Task, "local/rootfs"), os.DirFS(busyboxImage(t))))
	r := inImage(t, "local/rootfs", `busybox cat /etc/image; echo x >/bin/x || echo fixed; echo x >/tmp/x && echo mine; pwd`)
	r.User, r.Dir, r.ReadOnlyRoot = "root", "/etc", true
	grant := withMounts()
	grant.Users = []string{"root"}
	require.Equal(t, "of busybox\nfixed\nmine\n/etc", w.stdoutOf(t, scope, grant, r))
	// What root writes to it where it can is not the image's.
	scope.Config.Id, r.ReadOnlyRoot = "alloc/web/2", false
	r.Args = []string{"-c", `echo x >/bin/x && echo changed`}
	require.Equal(t, "of busybox\nfixed\nmine\n/etc\nchanged", w.stdoutOf(t, scope, grant, r))
	require.NoFileExists(t, filepath.Join(scope.Config.Directories.Task, "local/rootfs/bin/x"))
}

func TestNoMoreIsMountedThanWasGranted(t *testing.T) {
	image, node, link := busyboxImage(t), t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink("/etc", filepath.Join(link, "out")))
	require.NoError(t, os.Symlink("/none", filepath.Join(link, "nowhere")))
	mount := func(m ...*wasmnodev1.ProcessMount) func(*wasmnodev1.ProcessStartRequest) {
		return func(r *wasmnodev1.ProcessStartRequest) { r.Mounts = m }
	}
	many := func(n int) (mounts []*wasmnodev1.ProcessMount) {
		for i := range n {
			mounts = append(mounts, &wasmnodev1.ProcessMount{Target: fmt.Sprint("/m", i), Source: "local"})
		}
		return mounts
	}
	long := func(n int) string { return "/" + strings.Repeat("x/", n/2) }
	for name, c := range map[string]struct {
		grants []string
		change func(r *wasmnodev1.ProcessStartRequest)
		code   abi.Code // 0: it starts
		says   string
	}{
		"another root":        {nil, nil, abi.PermissionDenied, "root " + image + ` is not granted: add plugin "test" { grant { process { mounts = ["r:` + image + `"] } } }`},
		"a root out of it":    {nil, func(r *wasmnodev1.ProcessStartRequest) { r.Root = "../x" }, abi.PermissionDenied, "path ../x leads out of the task's directory"},
		"a root by a link":    {[]string{"r:" + link}, func(r *wasmnodev1.ProcessStartRequest) { r.Root = link + "/out" }, abi.PermissionDenied, "root " + link + "/out: it leads out of " + link},
		"a file as root":      {[]string{"r:" + image}, func(r *wasmnodev1.ProcessStartRequest) { r.Root += "/etc/image" }, abi.NotFound, "/etc/image: not a directory"},
		"no such root":        {[]string{"r:" + image}, func(r *wasmnodev1.ProcessStartRequest) { r.Root += "/none" }, abi.NotFound, "/none: no such file or directory"},
		"a zero in a root":    {nil, func(r *wasmnodev1.ProcessStartRequest) { r.Root = "/\x00" }, abi.InvalidArgument, "is not a path"},
		"another source":      {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: node, Target: "/x", ReadOnly: true}), abi.PermissionDenied, "mount " + node + ` is not granted: add plugin "test" { grant { process { mounts = ["r:` + node + `"] } } }`},
		"to write to it":      {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: image, Target: "/x"}), abi.PermissionDenied, `mounts = ["rw:` + image + `"]`},
		"with that beginning": {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: image + "2", Target: "/x", ReadOnly: true}), abi.PermissionDenied, "is not granted"},
		"by a detour":         {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: image + "/../x", Target: "/x", ReadOnly: true}), abi.PermissionDenied, "is not granted"},
		"by a link":           {[]string{"r:" + image, "rw:" + link}, mount(&wasmnodev1.ProcessMount{Source: link + "/out/passwd", Target: "/x"}), abi.PermissionDenied, "mount " + link + "/out/passwd: it leads out of " + link},
		"the task's link":     {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local/link", Target: "/x"}), abi.PermissionDenied, "local/link: it leads out of "},
		"out of the task":     {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local/../../x", Target: "/x"}), abi.PermissionDenied, "path local/../../x leads out of the task's directory"},
		"at a link in one": {[]string{"r:" + image, "rw:" + link}, mount(&wasmnodev1.ProcessMount{Source: link, Target: "/x"}, &wasmnodev1.ProcessMount{Source: "local", Target: "/x/nowhere"}),
			abi.FailedPrecondition, "/x/nowhere is a link that leads nowhere in the root"},
		"a device":           {[]string{"r:" + image, "r:/dev/null"}, mount(&wasmnodev1.ProcessMount{Source: "/dev/null", Target: "/x", ReadOnly: true}), abi.InvalidArgument, "mount /dev/null: it is neither a directory nor a regular file"},
		"over the root":      {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local", Target: "/x/.."}), abi.InvalidArgument, "that is the root itself"},
		"over /proc":         {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local", Target: "/x/../proc"}), abi.InvalidArgument, "/dev, /proc and /sys are the node's to make"},
		"in /proc":           {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local", Target: "proc/sys"}), abi.InvalidArgument, "/dev, /proc and /sys are the node's to make"},
		"beside /proc":       {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local", Target: "/process"}), 0, ""},
		"no target":          {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local"}), abi.InvalidArgument, `"" is not a path`},
		"no source":          {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Target: "/x"}), abi.InvalidArgument, "mount at /x: it has either a source or tmpfs"},
		"two sources":        {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Target: "/x", Source: "local", Tmpfs: true}), abi.InvalidArgument, "it has either a source or tmpfs"},
		"nothing":            {[]string{"r:" + image}, mount(nil), abi.InvalidArgument, "is not a path"},
		"two at one":         {[]string{"r:" + image}, mount(many(1)[0], many(1)[0]), abi.InvalidArgument, "two mounts at /m0"},
		"in place of /tmp":   {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Target: "/tmp", Tmpfs: true}), 0, ""},
		"in the job's place": {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Target: "/srv/volume", Tmpfs: true}), abi.InvalidArgument, "two mounts at /srv/volume"},
		"1,024 mounts":       {[]string{"r:" + image}, mount(many(1024)...), 0, ""},
		"1,025 mounts":       {[]string{"r:" + image}, mount(many(1025)...), abi.InvalidArgument, "more than 1024 mounts"},
		"a long source":      {[]string{"r:" + image, "r:/x"}, mount(&wasmnodev1.ProcessMount{Source: long(4095), Target: "/x", ReadOnly: true}), abi.NotFound, "no such file"},
		"a longer source":    {[]string{"r:" + image, "r:/x"}, mount(&wasmnodev1.ProcessMount{Source: long(4096), Target: "/x", ReadOnly: true}), abi.InvalidArgument, "a path has more than 4095 bytes"},
		"a longer target":    {[]string{"r:" + image}, mount(&wasmnodev1.ProcessMount{Source: "local", Target: long(4096)}), abi.InvalidArgument, "a path has more than 4095 bytes"},
		"without isolation": {[]string{"r:" + image}, func(r *wasmnodev1.ProcessStartRequest) {
			r.Isolation = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE
		}, abi.PermissionDenied, "isolation none is not granted"},
		"read-only without one": {nil, func(r *wasmnodev1.ProcessStartRequest) { r.Root, r.ReadOnlyRoot = "", true }, abi.InvalidArgument, "goes with a root"},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), imageScope(t)
			require.NoError(t, os.Symlink("/etc", filepath.Join(scope.Config.Directories.Local, "link")))
			scope.Config.Mounts = []*wasmnodev1.Mount{{TaskPath: "srv/volume", HostPath: t.TempDir()}}
			r := inImage(t, image, "exit 0")
			if c.change != nil {
				c.change(r)
			}
			out := startProcess(t, w, scope, withMounts(c.grants...), r)
			if code, message := decodeAnswer(t, out); c.code == 0 {
				require.Zero(t, code, string(message))
				return
			}
			refused := answeredError(t, out)
			require.Equal(t, c.code, refused.Code, refused.Message)
			require.Contains(t, refused.Message, c.says)
		})
	}
}

func TestARootOfItsOwnIsForDriversThatMayRunAnything(t *testing.T) {
	image := busyboxImage(t)
	for _, change := range []func(*wasmnodev1.ProcessStartRequest){
		func(*wasmnodev1.ProcessStartRequest) {},
		func(r *wasmnodev1.ProcessStartRequest) {
			r.Root, r.Mounts = "", []*wasmnodev1.ProcessMount{{Source: "local", Target: "/bin"}}
		},
	} {
		r, grant := inImage(t, image, "exit 0"), withMounts("r:"+image)
		change(r)
		grant.Commands, grant.Isolation = []string{"/bin/sh"}, ""
		refused := answeredError(t, startProcess(t, newWorld(t, host.Limits{}), imageScope(t), grant, r))
		require.Equal(t, abi.PermissionDenied, refused.Code)
		require.Equal(t, `command /bin/sh, which may be any program in a root or with mounts of the driver's, is not granted: add plugin "test" { grant { process { commands = ["*"] isolation = "full" } } }`, refused.Message)
		r.Isolation = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE
		refused = answeredError(t, startProcess(t, newWorld(t, host.Limits{}), imageScope(t), grant, r))
		require.Contains(t, refused.Message, "a root and mounts are for processes with full isolation")
	}
}

// TestAHostileImageLeadsNowhere: links of an image are those of the process's root, and none of
// them says where what the node makes is.
func TestAHostileImageLeadsNowhere(t *testing.T) {
	image, node := busyboxImage(t), t.TempDir()
	put(t, node, "x", []byte("the node's\n"))
	put(t, image, "opt/own", []byte("the image's\n"))
	for link, target := range map[string]string{
		"dev": node, "sys": ".", "proc": "/etc", "local": "../../../../../opt", "secrets": node,
		"settings": "proc/sys", "etc/hosts": node + "/x", "etc/resolv.conf": "/proc/1/cmdline", "srv": node + "/deep/er",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(image, link)))
	}
	before, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	require.NoError(t, err)
	w, scope := newWorld(t, host.Limits{}), imageScope(t)
	r := inImage(t, image, `
		busybox grep -c mine /opt/x; test -e /local/x && echo local; test -c /dev/null && test -r /proc/self/status && test -d /sys/class && echo fixed
		test -r /proc/kcore && busybox wc -c </proc/kcore; (echo x >/proc/sys/kernel/core_pattern) 2>/dev/null && echo wrote a setting
		test -e '`+node+`/x' && echo of the node; test -d /srv/in && test -e /settings/fs/x && test -d /alloc/ && echo in`)
	r.User = "root"
	put(t, scope.Config.Directories.Local, "x", []byte("mine\n"))
	r.Mounts = []*wasmnodev1.ProcessMount{{Source: "local", Target: "/srv/in"}, {Source: "local", Target: "/settings/fs"}}
	grant := withMounts("r:" + image)
	grant.Users = []string{"root"}
	require.Equal(t, "1\nlocal\nfixed\nin", w.stdoutOf(t, scope, grant, r))
	after, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	entries, err := os.ReadDir(node)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no mount point was made on the node")

	require.NoError(t, os.Symlink("/proc/self/root/opt", filepath.Join(image, "alloc")))
	scope.Config.Id = "alloc/web/2"
	twice := strings.Repeat("1\nlocal\nfixed\nin\n", 2) // its output goes to the same files
	require.Equal(t, strings.TrimSpace(twice), w.stdoutOf(t, scope, grant, r), "what leads into /proc, as /settings too, is replaced")
}

func TestACommandInAnImageIsHeldInIt(t *testing.T) {
	w, scope, image := newWorld(t, host.Limits{}), imageScope(t), busyboxImage(t)
	r := inImage(t, image, `echo ready; busybox sleep 1000`)
	code, message := decodeAnswer(t, startProcess(t, w, scope, withMounts("r:"+image), r))
	require.Zero(t, code, string(message))
	var stdout bytes.Buffer
	exit, err := w.workloads.Exec(t.Context(), scope.Config.Id, &workload.ExecSpec{
		Command: "busybox", Args: []string{"sh", "-c", "busybox id -u; busybox cat /etc/image; test -e /usr || echo nothing else; busybox sleep 1000 & exit 3"}, Stdout: &stdout,
	})
	require.NoError(t, err)
	require.Equal(t, 3, exit.ExitCode)
	require.Equal(t, "65534\nof busybox\nnothing else\n", stdout.String())
	stats, err := w.workloads.Stats(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	require.NotNil(t, stats.MemoryBytes)
	require.NoError(t, w.workloads.Stop(t.Context(), scope.Config.Id, "SIGKILL", 0))
}
