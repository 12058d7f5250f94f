package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// needQEMU skips a test where there is no QEMU, unless there has to be one.
func needQEMU(t *testing.T) (dir string) {
	t.Helper()
	for _, name := range []string{"qemu-system-x86_64", "qemu-img"} {
		path, err := exec.LookPath(name)
		if err != nil {
			guestbuild.Missing(t, fmt.Sprintf("no %s on this machine: apt install qemu-system-x86 qemu-utils", name))
		}
		dir = filepath.Dir(path)
	}
	return dir
}

// bootDisk is the image of a machine that counts its starts on its disk, says on its serial
// port which one this is, and waits for its power button, if it listens to that. A kernel
// takes ten times as long to start.
func bootDisk(listens bool) []byte {
	const load, disk, say, booted, off = 0x7c00, 0x7e00, 0x7d00, 0x7d40, 0x7d60
	word := func(n int) string { return string([]byte{byte(n), byte(n >> 8)}) }
	print := func(text int) string { return "\xbe" + word(text) + "\xb8" + word(say) + "\xff\xd0" } // mov si, text; mov ax, say; call ax
	sector := func(do string) string {                                                              // do: 2 reads, 3 writes the second one
		return "\xb6\x00\xb8\x01" + do + "\xbb" + word(disk) + "\xb9\x02\x00\xcd\x13" // mov dh, 0; mov ax, do<<8|1; mov bx, disk; mov cx, 2; int 0x13
	}
	wait := "\xba\x02\x06\xb8\x00\x01\xef" + // mov dx, 0x602; mov ax, 0x100; out dx, ax: the button sets its bit
		"\xf4\xba\x00\x06\xed\xf6\xc4\x01\x74\xf6" // l: hlt; mov dx, 0x600; in ax, dx; test ah, 1; jz l
	if !listens {
		wait = "\xf4\xeb\xfd" // l: hlt; jmp l
	}
	sections := map[int]string{
		load: "\x31\xc0\x8e\xd8\x8e\xc0\x8e\xd0\xbc" + word(load) + "\x52" + // xor ax, ax; mov ds, es, ss, ax; mov sp, load; push dx: the disk
			sector("\x02") + "\xfe\x06" + word(disk) + "\x5a\x52" + sector("\x03") + // inc byte [disk]; pop dx; push dx
			"\xa0" + word(disk) + "\x04\x30\xa2" + word(booted+len("booted ")) + // mov al, [disk]; add al, '0'; mov [booted+7], al
			print(booted) + wait + print(off) +
			"\xba\x04\x06\xb8\x00\x20\xef\xf4", // mov dx, 0x604; mov ax, 0x2000; out dx, ax: off; hlt
		say: "\xfa" + // cli: the BIOS writes to the port, too, what it has not yet, when it is interrupted
			"\xac\x84\xc0\x74\x11\x88\xc4" + // l: lodsb; test al, al; jz end; mov ah, al
			"\xba\xfd\x03\xec\xa8\x20\x74\xfb" + // mov dx, 0x3fd; w: in al, dx; test al, 0x20; jz w
			"\x88\xe0\xb2\xf8\xee\xeb\xea\xfb\xc3", // mov al, ah; mov dl, 0xf8; out dx, al; jmp l; end: sti; ret
		booted:     "booted ?\r\n\x00",
		off:        "powered off\r\n\x00",
		load + 510: "\x55\xaa",
	}
	image := make([]byte, 1<<20)
	for at, bytes := range sections {
		copy(image[at-load:], bytes)
	}
	return image
}

// qemuPlugin is the configuration of the driver, as its README has it.
const qemuPlugin = `plugin "qemu" {
  config {
    emulators_dir = "%[1]s"
    image_paths   = ["%[2]s"]
  }
  grant {
    process {
      commands = ["%[1]s/qemu-system-x86_64"]
      helper "%[1]s/qemu-system-x86_64" {
        args = ["--version"]
      }
      helper "%[1]s/qemu-system-x86_64" {
        args = ["-machine", "none,accel=*", "-nodefaults", "-nographic", "-qmp", "stdio"]
      }
      helper "%[1]s/qemu-img" {
        args = ["--version"]
      }
      helper "%[1]s/qemu-img" {
        args = ["info", "--output=json", "-U", "*"]
      }
      helper "%[1]s/qemu-img" {
        args = ["create", "-f", "qcow2", "-F", "*", "-b", "*", "*"]
      }
    }
  }
}`

// writeMachine writes a job of one machine, whose image has the job's name.
func writeMachine(t *testing.T, images, job, killTimeout, config string) string {
	t.Helper()
	image := fmt.Sprintf("image_path = %q\n", filepath.Join(images, job))
	text := strings.NewReplacer(
		"    task \"task\" {", "    network {\n      port \"web\" {}\n    }\n    task \"task\" {\n      kill_timeout = \""+killTimeout+"\"",
	).Replace(read(t, writeJob(t, job, "service", "qemu", image+config)))
	return write(t, filepath.Join(t.TempDir(), "job.hcl"), text)
}

// TestVirtualMachinesLiveAsOtherTasksDo runs them as a user would: they write to the task's
// log, outlive the agent, and are stopped by their power button, or without its help.
func TestVirtualMachinesLiveAsOtherTasksDo(t *testing.T) {
	tools, images := needQEMU(t), t.TempDir()
	disks := map[string][]byte{"polite": bootDisk(true), "deaf": bootDisk(false)}
	for name, disk := range disks {
		require.NoError(t, os.WriteFile(filepath.Join(images, name), disk, 0o600))
	}
	s := newSite(t, "qemu")
	s.grant(t, fmt.Sprintf(qemuPlugin, tools, images))
	n := s.start(t)
	run := func(job, killTimeout, config string) {
		t.Helper()
		n.out(t, "job", "run", "-detach", writeMachine(t, images, job, killTimeout, config))
	}
	says := func(alloc, what string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Contains(c, n.run(t, "alloc", "logs", alloc).stdout, what)
		}, testTimeout, tick)
	}
	run("polite", "30s", "graceful_shutdown = true\nuse_thin_copy = true\nport_map {\n  web = 80\n}")
	run("deaf", "500ms", "graceful_shutdown = true")
	run("absent", "1s", "")
	run("odd", "1s", `accelerator = "hvf"`)
	polite, deaf := n.await(t, "polite", "running"), n.await(t, "deaf", "running")
	says(polite.ID, "booted 1")
	says(deaf.ID, "booted 1")
	n.out(t, "alloc", "restart", polite.ID)
	says(polite.ID, "powered off")
	says(polite.ID, "booted 2")

	before := taskEvents(n.await(t, "polite", "running"))
	n.signal(t, syscall.SIGKILL)
	n = s.start(t)
	require.Equal(t, before, taskEvents(n.await(t, "polite", "running")), "nothing happened to it")

	n.out(t, "job", "stop", "polite")
	n.out(t, "job", "stop", "deaf")
	ended := func(job, status string, says ...string) {
		t.Helper()
		text := n.out(t, "alloc", "status", n.await(t, job, status).ID)
		for _, what := range says {
			assert.Contains(t, text, what)
		}
	}
	ended("polite", "complete", "Exit Code: 0")
	require.Equal(t, 2, strings.Count(n.out(t, "alloc", "logs", polite.ID), "powered off"))
	require.Equal(t, string(disks["polite"]), read(t, filepath.Join(images, "polite")), "a thin copy leaves the image as it is")
	ended("deaf", "complete", "Exit Code: 0", "The machine runs on 500ms after it was told to switch itself off: it is switched off")
	require.Equal(t, byte(1), read(t, filepath.Join(images, "deaf"))[512])
	ended("absent", "failed", "there is no image "+images+"/absent")
	ended("odd", "failed", "accelerator hvf does not work on this node: invalid accelerator hvf")
}
