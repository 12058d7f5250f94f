package process_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
)

func TestDangerousCallsAreRefused(t *testing.T) {
	program := filepath.Join(t.TempDir(), "calls")
	output, err := exec.Command("go", "build", "-o", program, "./testdata/calls").CombinedOutput()
	require.NoError(t, err, string(output))
	names := []string{"bpf", "io_uring_setup", "keyctl", "setns", "clone", "clone3", "userfaultfd", "getppid"}
	const refused = "bpf EPERM\nio_uring_setup EPERM\nkeyctl EPERM\nsetns EPERM\nclone EPERM\nclone3 ENOSYS\nuserfaultfd EPERM\ngetppid"

	w := newWorld(t)
	for _, user := range []string{"nobody", "root"} {
		spec := w.isolated("")
		spec.Process.User, spec.Process.Command, spec.Process.Args = user, "/calls", names
		spec.Process.Isolated.Mounts = append(spec.Process.Isolated.Mounts, workload.Mount{GuestPath: "/calls", HostPath: program})
		result, stdoutOf := w.finish(spec)
		require.True(t, result.Successful())
		require.Equal(t, refused, stdoutOf)
	}
	free, err := exec.Command(program, names...).Output()
	require.NoError(t, err)
	require.NotContains(t, string(free), "EPERM", "they are refused for no other reason")
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
