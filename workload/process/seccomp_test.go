package process_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
)

// buildCalls returns the program that makes system calls.
func buildCalls(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "calls")
	output, err := exec.Command("go", "build", "-o", program, "./testdata/calls").CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}

// runCalls returns what the program writes as an isolated task of a user.
func runCalls(t *testing.T, w *world, program, user string, args ...string) string {
	t.Helper()
	spec := w.isolated("")
	spec.Process.User, spec.Process.Command, spec.Process.Args = user, "/calls", args
	spec.Process.Isolated.Mounts = append(spec.Process.Isolated.Mounts, workload.Mount{GuestPath: "/calls", HostPath: program})
	result, stdoutOf := w.finish(spec)
	require.True(t, result.Successful())
	return stdoutOf
}

func TestDangerousCallsAreRefused(t *testing.T) {
	program := buildCalls(t)
	want := map[string]string{"clone3": "ENOSYS", "getppid": "", "x32 bpf": "ENOSYS"}
	for _, name := range []string{
		"bpf", "io_uring_setup", "io_uring_enter", "keyctl", "add_key", "request_key", "perf_event_open", "setns", "unshare", "clone",
		"userfaultfd", "fanotify_init", "open_by_handle_at", "mount_setattr", "quotactl",
	} {
		want[name] = "EPERM"
	}
	requireCalls(t, program, want)
	free, err := exec.Command(program, "bpf", "io_uring_setup", "keyctl", "setns", "clone", "userfaultfd").Output()
	require.NoError(t, err)
	require.NotContains(t, string(free), "EPERM", "they are refused for no other reason")
}

// No namespace is made for the network, and none covers these on any machine.
func TestSocketsThatReachBeyondTheNetworkAreRefused(t *testing.T) {
	program := buildCalls(t)
	want := map[string]string{
		"AF_UNIX": "", "AF_INET": "", "AF_INET6": "", "NETLINK_ROUTE": "",
	}
	for _, name := range []string{
		"NETLINK_AUDIT", "NETLINK_NETFILTER", "AF_VSOCK", "AF_VSOCK, high", "AF_ALG", "AF_PACKET", "AF_KEY", "AF_XDP", "AF_BLUETOOTH", "AF_TIPC", "AF_TIPC pair", "AF_RDS", "AF_CAN",
	} {
		want[name] = "EAFNOSUPPORT"
	}
	requireCalls(t, program, want)
	free, err := exec.Command(program, "NETLINK_AUDIT", "NETLINK_NETFILTER", "AF_PACKET").Output()
	require.NoError(t, err)
	require.NotContains(t, string(free), "NOSUPPORT", "they are refused for no other reason")
}

// They have no file whose permissions would guard them.
func TestSocketsOfTheMachineWithoutAFileAreOutOfReach(t *testing.T) {
	program := buildCalls(t)
	name := fmt.Sprintf("wasmnode-test-%d", os.Getpid())
	listener, err := net.Listen("unix", "@"+name)
	require.NoError(t, err)
	defer listener.Close()
	free, err := exec.Command(program, "connect", name).Output()
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", string(free), "they are refused for no other reason")
	if landlockVersion() < 6 {
		t.Skip("this kernel cannot keep processes from them")
	}
	w := newWorld(t)
	for _, user := range []string{"nobody", "root"} {
		require.Equal(t, "operation not permitted", runCalls(t, w, program, user, "connect", name))
	}
}

func landlockVersion() uintptr {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return version
}

// requireCalls makes system calls as an isolated task, of nobody and of root, and compares the
// errors.
func requireCalls(t *testing.T, program string, want map[string]string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	var lines []string
	for _, name := range names {
		lines = append(lines, strings.TrimRight(name+" "+want[name], " "))
	}
	w := newWorld(t)
	for _, user := range []string{"nobody", "root"} {
		got := strings.Split(runCalls(t, w, program, user, names...), "\n")
		for i := range got {
			got[i] = strings.TrimRight(got[i], " ")
		}
		require.Equal(t, lines, got, user)
	}
}

func TestProgramsOfAnotherArchitectureAreKilled(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64, which runs 32-bit programs")
	}
	w := newWorld(t)
	spec := w.isolated("")
	program := filepath.Join(spec.Process.Isolated.Root, "local/old")
	require.NoError(t, os.WriteFile(program, exit32(), 0o755))
	free := exec.Command(program)
	if err := free.Run(); free.ProcessState.ExitCode() != 7 {
		t.Skip("this kernel runs no 32-bit programs: ", err)
	}
	spec.Process.Command = "local/old"
	result, _ := w.finish(spec)
	require.Equal(t, int(syscall.SIGSYS), result.Signal)
}

// exit32 is a 32-bit program for Intel's processors that ends with code 7.
func exit32() []byte {
	const base, header = 0x10000, 52 + 32
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80} // eax = exit; ebx = 7; int 0x80
	words := func(b []byte, values ...uint32) []byte {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	elf := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0}
	elf = words(elf, 1, base+header, 52, 0, 0)
	elf = append(elf, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0)
	size := uint32(header + len(code))
	elf = words(elf, 1, 0, base, base, size, size, 5, 4096)
	return append(elf, code...)
}
