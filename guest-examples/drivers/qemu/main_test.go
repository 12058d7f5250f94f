package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

// both runs a test natively and against the compiled plugin, on a node with a QEMU that says
// of every image that it is a raw one.
func both(t *testing.T, config string, test func(t *testing.T, node *drivertest.Node)) {
	run := func(t *testing.T, node *drivertest.Node) {
		node.OnHelper(func(h *process.Helper) (*process.Ended, error) {
			switch h.Args[0] {
			case "--version":
				return &process.Ended{Stdout: []byte("QEMU emulator version 7.2.22 (Debian 1:7.2)\n")}, nil
			case "info":
				return &process.Ended{Stdout: []byte(`{"filename":"` + h.Args[len(h.Args)-1] + `","format":"raw"}`)}, nil
			}
			return &process.Ended{}, nil
		})
		require.NoError(t, node.Configure(config))
		test(t, node)
	}
	t.Run("native", func(t *testing.T) {
		run(t, drivertest.New(t, func() driver.Driver { return &qemu{} }))
	})
	t.Run("compiled", func(t *testing.T) {
		run(t, drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/qemu"), nil))
	})
}

func TestTheFingerprintHasTheVersionsAndEmulators(t *testing.T) {
	both(t, `{"emulators_allowlist": ["x86_64", "qemu-system-aarch64", "m68k"]}`, func(t *testing.T, node *drivertest.Node) {
		absent, tool := "/usr/bin/qemu-system-m68k", error(nil)
		node.OnHelper(func(h *process.Helper) (*process.Ended, error) {
			switch {
			case strings.HasPrefix(h.Command, absent):
				return nil, abi.NewError(abi.NotFound, "no such program")
			case h.Command == "/usr/bin/qemu-img" && tool != nil:
				return nil, tool
			}
			return &process.Ended{Stdout: []byte("QEMU emulator version 7.2.22 (Debian 1:7.2)\n")}, nil
		})
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health, f.Description)
		require.True(t, f.Attributes["driver.qemu"].EqualVT(driver.Bool(true)))
		require.True(t, f.Attributes["driver.qemu.version"].EqualVT(driver.String("7.2.22")))
		require.True(t, f.Attributes["driver.qemu.emulators"].EqualVT(driver.String("aarch64,x86_64")))

		tool = abi.NewError(abi.NotFound, "there is no program /usr/bin/qemu-img")
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Unhealthy, f.Health)
		require.Equal(t, "there is no program /usr/bin/qemu-img", f.Description)

		absent = "/usr/bin/qemu-system-"
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Undetected, f.Health)
		require.Equal(t, "no qemu-system-x86_64, no qemu-system-aarch64, no qemu-system-m68k in /usr/bin", f.Description)
	})
}

func TestATaskIsAnEmulator(t *testing.T) {
	both(t, `{}`, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"image_path": "local/a,b.img", "machine_type": "q35", "drive_interface": "virtio", "graceful_shutdown": true,
			"guest_agent": true, "restrict_network": true, "port_map": [{"ssh": 22}, {"web": 80}], "args": ["-device", "isa-debug-exit"]}`)
		task.User = "vm"
		task.Resources.Cores = []uint32{3, 4}
		task.Ports = []*driver.Port{{Label: "web", HostPort: 8080}, {Label: "ssh", HostIp: "10.0.0.1", HostPort: 2222}}
		handle, network, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, map[string]uint32{"ssh": 22, "web": 80}, network.PortMap)
		require.Equal(t, task.Id, handle.WorkloadId)
		require.Equal(t, task.Directories.Task+"/qmp.sock\x00"+task.Directories.Task+"/qa.sock", string(handle.DriverState))
		require.True(t, (&process.Command{
			Command: "/usr/bin/qemu-system-x86_64", User: "vm", Isolation: process.IsolationNone,
			Args: []string{
				"-machine", "type=q35,accel=tcg", "-name", "a,,b.img", "-m", "64M",
				"-drive", "file=" + task.Directories.Local + "/a,,b.img,format=raw,if=virtio,id=image0", "-nographic", "-smp", "2",
				"-qmp", "unix:qmp.sock,server=on,wait=off",
				"-chardev", "socket,path=qa.sock,server=on,wait=off,id=qga0", "-device", "virtio-serial",
				"-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0",
				"-netdev", "user,id=user.0,restrict=on,hostfwd=tcp:10.0.0.1:2222-:22,hostfwd=udp:10.0.0.1:2222-:22,hostfwd=tcp::8080-:80,hostfwd=udp::8080-:80",
				"-device", "virtio-net,netdev=user.0", "-device", "isa-debug-exit",
			},
		}).EqualVT(node.Processes()[0]), "%v", node.Processes()[0])

		recovered, err := node.RecoverTask(task, &driver.TaskHandle{Version: 1, WorkloadId: task.Id})
		require.NoError(t, err)
		require.True(t, handle.EqualVT(recovered), "the node may have lost it")

		task = node.Task(`{"image_path": "local/i", "emulator": "qemu-system-aarch64", "machine_type": "virt", "accelerator": "kvm"}`)
		handle, network, err = node.StartTask(task)
		require.NoError(t, err)
		require.Nil(t, network)
		require.Empty(t, handle.DriverState)
		last := node.Processes()[len(node.Processes())-1]
		require.Equal(t, "/usr/bin/qemu-system-aarch64", last.Command)
		require.Equal(t, []string{"-nographic", "-cpu", "host"}, last.Args[len(last.Args)-3:])

		task = node.Task(`{"image_path": "local/i", "port_map": [{"web": 80}, {"ssh": 22}]}`)
		task.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: "/run/netns/x"}
		task.Ports = []*driver.Port{{Label: "web", HostIp: "10.0.0.1", HostPort: 21000, TaskPort: 8080}, {Label: "ssh", HostIp: "::1", HostPort: 22000}}
		_, _, err = node.StartTask(task)
		require.NoError(t, err)
		last = node.Processes()[len(node.Processes())-1]
		require.Contains(t, last.Args, "user,id=user.0,hostfwd=tcp::8080-:80,hostfwd=udp::8080-:80,hostfwd=tcp::22000-:22,hostfwd=udp::22000-:22")

		task = node.Task(`{"image_path": "local/i", "guest_agent": true, "restrict_network": true}`)
		handle, network, err = node.StartTask(task)
		require.NoError(t, err)
		require.Nil(t, network)
		require.Empty(t, handle.DriverState, "a stop is none by the guest")
		last = node.Processes()[len(node.Processes())-1]
		require.Equal(t, []string{"-netdev", "user,id=user.0,restrict=on", "-device", "virtio-net,netdev=user.0"}, last.Args[len(last.Args)-4:])
	})
}

func TestWhatTheOperatorDoesNotPermitIsNotStarted(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return &qemu{} })
	node.OnHelper(func(h *process.Helper) (*process.Ended, error) {
		if h.Args[0] == "-machine" {
			return &process.Ended{ExitCode: 1, Stderr: []byte("Could not access KVM kernel module: No such file or directory\nqemu-system-x86_64: failed to initialize kvm: No such file or directory\n")}, nil
		}
		return &process.Ended{Stdout: []byte(`{"filename":"` + h.Args[len(h.Args)-1] + `","format":"raw"}`)}, nil
	})
	require.NoError(t, node.Configure(`{"image_paths": ["/srv/images/"], "args_allowlist": ["-device", "--snapshot", "-smp"], "emulators_allowlist": ["x86_64"]}`))
	for config, want := range map[string]string{
		`"image_path": "/srv/images/a"`:                             "",
		`"image_path": "/srv/images/../x"`:                          "image_path /srv/images/../x is neither in the task's directory or the one that the allocation's tasks share, nor in one of the plugin's image_paths",
		`"image_path": "/srv/images"`:                               "image_path",
		`"image_path": "/srv/images-2/a"`:                           "image_path",
		`"image_path": "../../x"`:                                   "image_path ../../x",
		`"image_path": "../alloc/data/x"`:                           "",
		`"image_path": "../other/local/x"`:                          "image_path ../other/local/x is neither",
		`"image_path": "i", "emulator": "m68k"`:                     "emulator m68k is not in the plugin's emulators_allowlist",
		`"image_path": "i", "emulator": "../../bin/sh"`:             "emulator",
		`"image_path": "i", "machine_type": "pc,accel=x"`:           "machine_type",
		`"image_path": "i", "drive_interface": "usb"`:               "drive_interface",
		`"image_path": "i", "accelerator": "kvm"`:                   "accelerator kvm does not work on this node: failed to initialize kvm: No such file or directory",
		`"image_path": "i", "port_map": {"web": 80}`:                `port_map: the group has no port "web"`,
		`"image_path": "i", "port_map": {"six": 80}`:                "port_map: port six is one of ::1, and only those of IPv4 addresses can be forwarded",
		`"image_path": "i", "port_map": {"four": 65536}`:            "port_map",
		`"image_path": "i", "args": ["-device", "x", "--smp", "2"]`: "",
		`"image_path": "i", "args": ["-snapshot", "-device", "x"]`:  "",
		`"image_path": "i", "args": ["-drive", "file=/dev/sda"]`:    "args: -drive is not in the plugin's args_allowlist",
		`"image_path": "i", "args": ["--drive", "file=/dev/sda"]`:   "args: --drive is not",
		`"image_path": "i", "args": ["/dev/sda"]`:                   `args: "/dev/sda" is no option's value, so that it is a disk image`,
		`"image_path": "i", "args": ["-smp", "2", "/dev/sda"]`:      "is no option's value",
		`"image_path": "i", "args": ["-snapshot", "/dev/sda"]`:      "is no option's value",
		`"image_path": "i", "args": [""]`:                           "is no option's value",
		`"image": "i"`:                                              "image",
	} {
		t.Run(config, func(t *testing.T) {
			task, err := node.TryTask("{" + config + "}")
			if err == nil {
				task.Ports = []*driver.Port{{Label: "four", HostPort: 1}, {Label: "six", HostIp: "::1", HostPort: 1}}
				_, _, err = node.StartTask(task)
			}
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// emulatorUntil answers as one's monitor does, until it is told what it obeys, such as to quit
// or, where it listens to its power button, to switch off; or until its guest has switched off.
func emulatorUntil(l net.Listener, off <-chan struct{}, obeys ...string) (got <-chan string) {
	said := make(chan string, 8)
	ended := make(chan struct{})
	go func() {
		defer close(said)
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		go func() {
			select {
			case <-off:
				_ = conn.Close()
			case <-ended:
			}
		}()
		_, _ = io.WriteString(conn, `{"QMP": {"version": {}}}`+"\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			command := strings.TrimSuffix(strings.TrimPrefix(lines.Text(), `{"execute":"`), `"}`)
			said <- command
			if command == "refused" {
				return
			}
			_, _ = io.WriteString(conn, `{"event": "X"}`+"\r\n"+`{"return": {}}`+"\r\n")
			if slices.Contains(obeys, command) {
				return
			}
		}
	}()
	return said
}

func TestAStopPressesThePowerButtonAndThenSwitchesOff(t *testing.T) {
	both(t, `{}`, func(t *testing.T, node *drivertest.Node) {
		for name, c := range map[string]struct {
			obeys   []string
			timeout time.Duration
			said    []string
			events  int
		}{
			"it listens":  {[]string{"system_powerdown"}, time.Minute, []string{"qmp_capabilities", "system_powerdown"}, 0},
			"it does not": {[]string{"quit"}, 50 * time.Millisecond, []string{"qmp_capabilities", "system_powerdown", "quit"}, 1},
		} {
			t.Run(name, func(t *testing.T) {
				before := len(node.Events())
				task := node.Task(`{"image_path": "i", "graceful_shutdown": true}`)
				handle, _, err := node.StartTask(task)
				require.NoError(t, err)
				got := emulatorUntil(node.Listen(string(handle.DriverState)), nil, c.obeys...)
				_, err = node.StopTask(task, handle, "SIGINT", c.timeout)
				require.NoError(t, err)
				var said []string
				for command := range got {
					said = append(said, command)
				}
				require.Equal(t, c.said, said)
				require.Len(t, node.Events(), before+c.events)
			})
		}
		task := node.Task(`{"image_path": "i"}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		_, err = node.StopTask(task, handle, "SIGINT", time.Minute)
		require.Equal(t, abi.Unimplemented, abi.CodeOf(err), "the node stops it: %v", err)
	})
}

func TestAnEmulatorThatDoesNotAnswerIsLeftToTheNode(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return &qemu{} })
	require.NoError(t, node.Configure(`{}`))
	for name, says := range map[string]string{
		"nobody":       "nobody listens",
		"":             "has closed the connection",
		"nonsense\r\n": "has closed the connection",
		`{"error": {"class": "GenericError", "desc": "not now"}}` + "\n": "not now",
		strings.Repeat("x", 1<<17):                                       "too long",
	} {
		t.Run(says, func(t *testing.T) {
			task := node.Task(`{"image_path": "i", "graceful_shutdown": true}`)
			handle := &driver.TaskHandle{Version: 1, DriverState: []byte(task.Directories.Task + "/qmp.sock")}
			if name != "nobody" {
				l := node.Listen(string(handle.DriverState))
				go func() {
					conn, err := l.Accept()
					if err == nil {
						_, _ = io.WriteString(conn, name)
						_ = conn.(*net.UnixConn).CloseWrite()
						_, _ = io.Copy(io.Discard, conn)
						_ = conn.Close()
					}
				}()
			}
			_, err := node.StopTask(task, handle, "SIGINT", 100*time.Millisecond)
			require.ErrorContains(t, err, "the machine's monitor: ")
			require.ErrorContains(t, err, says)
		})
	}
}

// unopened is before what is said of an image that the tool has not seen.
const unopened = "unopened: "

// descriptor is a VMDK that has its data in another file.
func descriptor(file string) string {
	return "# Disk DescriptorFile\n\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\n\nRW 2048 FLAT \"" + file + "\" 0\n"
}

func FuzzParts(f *testing.F) {
	f.Add([]byte(descriptor("/x")))
	f.Add([]byte("QFI\xfb\x00\x00\x00\x03"))
	f.Fuzz(func(t *testing.T, head []byte) {
		_ = isDescriptor(head)
		if name, err := dataFile(head); err == nil && len(name) > len(head) {
			t.Fatal("a name that is not there")
		}
	})
}

// An image is data that a stranger may have made, and says itself of which files it is made.
func TestAnImageIsMadeOfFilesThatArePermitted(t *testing.T) {
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		guestbuild.Missing(t, "no qemu-img on this machine: apt install qemu-utils, or make machines")
	}
	node := drivertest.New(t, func() driver.Driver { return &qemu{} })
	looked := 0
	node.OnHelper(func(h *process.Helper) (*process.Ended, error) {
		var stdout, stderr bytes.Buffer
		looked++
		cmd := exec.Command(h.Command, h.Args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return nil, err
		}
		return &process.Ended{ExitCode: int32(cmd.ProcessState.ExitCode()), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
	})
	operators, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, node.Configure(`{"emulators_dir": "`+filepath.Dir(tool)+`", "image_paths": ["`+operators+`"]}`))
	create := func(t *testing.T, args ...string) {
		t.Helper()
		out, err := exec.Command(tool, append([]string{"create", "-q"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	create(t, "-f", "raw", elsewhere+"/secret", "1M")
	create(t, "-f", "raw", operators+"/base", "1M")
	layers := func(t *testing.T, image string, n int) {
		t.Helper()
		create(t, "-f", "qcow2", image+strconv.Itoa(n), "1M")
		for n--; n > 1; n-- {
			create(t, "-u", "-f", "qcow2", "-F", "qcow2", "-b", image+strconv.Itoa(n+1), image+strconv.Itoa(n), "1M")
		}
		create(t, "-u", "-f", "qcow2", "-F", "qcow2", "-b", image+"2", image, "1M")
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, image string)
		says string // "": it is started
	}{
		"raw": {func(t *testing.T, image string) { create(t, "-f", "raw", image, "1M") }, ""},
		"permitted": {func(t *testing.T, image string) {
			create(t, "-f", "qcow2", "-F", "raw", "-b", operators+"/base", image)
		}, ""},
		"relative": {func(t *testing.T, image string) {
			create(t, "-f", "raw", filepath.Dir(image)+"/below", "1M")
			create(t, "-f", "qcow2", "-F", "raw", "-b", "below", image)
		}, ""},
		"missing": {func(*testing.T, string) {}, "there is no image "},
		"elsewhere": {func(t *testing.T, image string) {
			create(t, "-f", "qcow2", "-F", "raw", "-b", elsewhere+"/secret", image)
		}, "is made of " + elsewhere + "/secret, which is neither"},
		"far below": {func(t *testing.T, image string) {
			create(t, "-f", "qcow2", "-F", "raw", "-b", elsewhere+"/secret", filepath.Dir(image)+"/middle")
			create(t, "-f", "qcow2", "-F", "qcow2", "-b", "middle", image)
		}, "is made of " + elsewhere + "/secret"},
		"out of it": {func(t *testing.T, image string) {
			create(t, "-u", "-f", "qcow2", "-F", "raw", "-b", "../../../../../../../../etc/hostname", image, "1M")
		}, "is neither"},
		"data": {func(t *testing.T, image string) {
			create(t, "-f", "qcow2", "-o", "data_file="+elsewhere+"/data", image, "1M")
		}, unopened + "is made of " + elsewhere + "/data"},
		"a protocol": {func(t *testing.T, image string) {
			create(t, "-u", "-f", "qcow2", "-F", "raw", "-b", `json:{"driver":"raw","file":{"driver":"file","filename":"`+elsewhere+`/secret"}}`, image, "1M")
		}, "is neither"},
		"another format than it is said to be": {func(t *testing.T, image string) {
			create(t, "-f", "qcow2", filepath.Dir(image)+"/odd", "1M")
			create(t, "-u", "-f", "qcow2", "-F", "vmdk", "-b", "odd", image, "1M")
		}, "which is said to be vmdk and looks like qcow2"},
		"many layers": {func(t *testing.T, image string) {
			layers(t, image, mostLayers)
		}, ""},
		"too many layers": {func(t *testing.T, image string) {
			layers(t, image, mostLayers+1)
		}, "has more layers than 16"},
		"a link": {func(t *testing.T, image string) {
			require.NoError(t, os.Symlink(elsewhere+"/secret", image))
		}, "/image is reached by a link"},
		"a link that leads nowhere": {func(t *testing.T, image string) {
			require.NoError(t, os.Symlink(elsewhere+"/none", image))
		}, "/image is reached by a link"},
		"a link below": {func(t *testing.T, image string) {
			require.NoError(t, os.Symlink(elsewhere, filepath.Dir(image)+"/dir"))
			create(t, "-f", "qcow2", "-F", "raw", "-b", "dir/secret", image)
		}, "/dir/secret is reached by a link"},
		"a FIFO": {func(t *testing.T, image string) {
			require.NoError(t, syscall.Mkfifo(image, 0o600))
		}, "/image is no file"},
		"data of its own": {func(t *testing.T, image string) {
			create(t, "-f", "qcow2", "-o", "data_file="+filepath.Dir(image)+"/data", image, "1M")
		}, ""},
		"VMDK": {func(t *testing.T, image string) {
			create(t, "-f", "vmdk", image, "1M")
		}, ""},
		"extents": {func(t *testing.T, image string) {
			create(t, "-f", "vmdk", "-o", "subformat=twoGbMaxExtentFlat", image, "1M")
		}, unopened + "a VMDK that is made of other files, which is not supported"},
		"extents elsewhere": {func(t *testing.T, image string) {
			require.NoError(t, os.WriteFile(image, []byte(descriptor(elsewhere+"/secret")), 0o600))
		}, unopened + "a VMDK that is made of other files"},
		"extents in place of data": {func(t *testing.T, image string) {
			header := append([]byte("KDMV\x01\x00\x00\x00\x03\x00\x00\x00"), make([]byte, 512-12)...)
			header[28] = 1 // where its text is, in sectors
			require.NoError(t, os.WriteFile(image, append(header, descriptor(elsewhere+"/secret")...), 0o600))
		}, unopened + "a VMDK that is made of other files"},
		"extents below": {func(t *testing.T, image string) {
			require.NoError(t, os.WriteFile(filepath.Dir(image)+"/disk.vmdk", []byte(descriptor(elsewhere+"/secret")), 0o600))
			create(t, "-u", "-f", "qcow2", "-F", "vmdk", "-b", "disk.vmdk", image, "1M")
		}, "local/disk.vmdk, a VMDK that is made of other files"},
	} {
		t.Run(name, func(t *testing.T) {
			task := node.Task(`{"image_path": "local/image"}`)
			c.make(t, task.Directories.Local+"/image")
			started, before := len(node.Processes()), looked
			_, _, err := node.StartTask(task)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			says, closed := strings.CutPrefix(c.says, unopened)
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "\n")
			require.True(t, !closed || looked == before, "the tool opens it")
			require.Len(t, node.Processes(), started)
		})
	}
	task := node.Task(`{"image_path": "` + operators + `/base", "use_thin_copy": true}`)
	for range 2 { // the task restarts
		_, _, err := node.StartTask(task)
		require.NoError(t, err)
	}
	drives := slices.DeleteFunc(node.Processes(), func(c *process.Command) bool { return !slices.Contains(c.Args, "base") })
	require.Len(t, drives, 2)
	want := "file=" + task.Directories.Task + "/image0.qcow2,format=qcow2,if=ide,id=image0"
	require.Contains(t, drives[1].Args, want)
}
