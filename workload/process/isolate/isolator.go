package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// Isolator is the argument 1 of a [Program] that isolates processes for its parent until the socket is closed that
// it has as its first file after the standard ones. A message there is nothing but files: one that
// a [Request] comes from, one that takes a [Progress] or two, and those that the request tells of. The process executes
// its command once [Go] has come from the first of them, also when the isolator has ended.
const Isolator = "isolator"

// Go is what the new process waits for before it executes its command.
var Go = []byte{1}

// Request is what becomes a process. Its files are those of its standard input, output and error, and then those
// that it says.
type Request struct {
	Spec    *Spec
	Cgroup  bool // of version 2, which it is in
	Network bool // the namespace that it is in, if it has none of its own
	Doors   int  // of cgroups that it is in when it has written 0 to them
}

// Progress is, first, the number of the new process, which is a child of the isolator's parent, and then, unless it
// has executed the command, why not.
type Progress struct {
	PID   int        `json:",omitempty"`
	Error *abi.Error `json:",omitempty"`
}

// maxFiles are the most that a message has.
const maxFiles = 32

// building has a place for each root that is being built. A file system that does not answer keeps one, and
// the thread that asked it with a dozen files, which a process has not endlessly many of.
var building = make(chan struct{}, maxBuilding)

const maxBuilding = 1024

// socketFD is where an isolator's messages come from.
const socketFD = 3

// node is what is open of the node for all that are isolated.
type node struct {
	supervisor int // its pidfd
	proc       int // a /proc that is mounted nowhere: what is mounted may have less than a new one
}

// isolator isolates processes until nobody asks any more.
func isolator() error {
	if err := os.WriteFile("/proc/self/comm", []byte("wasmnode"), 0); err != nil { // it is a descriptor's number else
		return fmt.Errorf("its name: %w", err)
	}
	// Processes of other users have copies of its memory until they have executed their commands.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding from others: %w", err)
	}
	var n node
	var err error
	if n.supervisor, err = unix.PidfdOpen(os.Getppid(), 0); err != nil {
		return fmt.Errorf("the supervisor: %w", err)
	}
	if n.proc, err = newFileSystem("proc", plainAttributes, nil); err != nil {
		return failed("/proc", err)
	}
	unix.CloseOnExec(socketFD)
	startedWith()
	for {
		files, err := receiveFiles()
		if err != nil || files == nil {
			return err
		}
		go func() {
			// Never unlocked: the thread ends with its goroutine, as it cannot come back to where it was.
			runtime.LockOSThread()
			serve(files, n)
		}()
	}
}

// receiveFiles returns the files of the next message; nil: the other end is closed. A message whose files this
// process has no room for is passed over, which closes what it should be answered by.
func receiveFiles() (files []int, err error) {
	var text [1]byte
	rights := make([]byte, unix.CmsgSpace(4*maxFiles))
	for {
		n, of, flags, _, err := unix.Recvmsg(socketFD, text[:], rights, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the supervisor's socket: %w", err)
		}
		if n == 0 {
			return nil, nil
		}
		messages, err := unix.ParseSocketControlMessage(rights[:of])
		for i := range messages {
			came, parseErr := unix.ParseUnixRights(&messages[i])
			files, err = append(files, came...), errors.Join(err, parseErr)
		}
		if err == nil && flags&unix.MSG_CTRUNC == 0 && len(files) >= 2 {
			return files, nil
		}
		for _, fd := range files {
			closeFD(fd)
		}
		files = nil
	}
}

// serve makes one process. Whoever has asked may not read what comes of it any more.
func serve(files []int, n node) {
	report := os.NewFile(uintptr(files[1]), "progress")
	defer report.Close()
	p := &prepared{node: n, asked: os.NewFile(uintptr(files[0]), "request"), files: files[2:]}
	defer p.close()
	progress := json.NewEncoder(report)
	var r Request
	err := json.NewDecoder(p.asked).Decode(&r) // which reads no more: nothing else has come yet
	if err == nil {
		err = p.start(&r, func(pid int) { _ = progress.Encode(Progress{PID: pid}) })
	}
	if err != nil {
		_ = progress.Encode(Progress{Error: abi.Flat(err)})
	}
}

// start returns when the process has executed its command, or why it has not.
func (p *prepared) start(r *Request, forked func(pid int)) error {
	stdio, cgroup, network, doors, err := r.sort(p.files)
	if err != nil {
		return err
	}
	select {
	case building <- struct{}{}:
	default:
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("the roots of %d processes are being built: is there a file system that does not answer?", maxBuilding))
	}
	c := &p.calls
	c.Add(nil, unix.SYS_SETSID)
	for _, door := range doors {
		c.Add(explain("cgroup"), unix.SYS_WRITE, uintptr(door), c.Text("0"), 1)
	}
	keepOnCores(c, r.Spec.CPUs)
	for fd, file := range stdio {
		c.Add(nil, unix.SYS_DUP3, uintptr(file), uintptr(fd), 0)
	}
	err = p.prepare(r.Spec, network)
	<-building
	if err != nil {
		return err
	}
	child, err := forkexec.Fork(cloneFlags, cgroup, c)
	p.close() // it has them all, and may take long
	if err != nil {
		return failed("a new process", err)
	}
	closeFD(child.PIDFD)
	forked(child.PID)
	return child.Executed()
}

// sort tells the files of a request apart; -1: there is none.
func (r *Request) sort(files []int) (stdio []int, cgroup, network int, doors []int, err error) {
	cgroup, network = -1, -1
	more := r.Doors
	for _, has := range []bool{r.Cgroup, r.Network} {
		if has {
			more++
		}
	}
	if len(files) != 3+more {
		return nil, -1, -1, nil, abi.NewError(abi.Internal, fmt.Sprintf("%d files came with a request for %d", len(files), 3+more))
	}
	stdio, files = files[:3], files[3:]
	if r.Cgroup {
		cgroup, files = files[0], files[1:]
	}
	if r.Network {
		network, files = files[0], files[1:]
	}
	return stdio, cgroup, network, files, nil
}
