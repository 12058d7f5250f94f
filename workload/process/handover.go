package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/tasklog"
)

// Handover is what a program needs that replaces this one by execve(2), to go on with
// its processes. Their parent stays the same, if the main thread forked them and it is
// the main thread that calls execve: all others die then, and the kernel sends a
// parent-death signal when a process's parent thread does. It is encoded as JSON, and
// names open files by their descriptors.
type Handover struct {
	Cgroup    string // empty: there is none
	Lock      int    // of the cgroup, if there is one
	Count     uint64 // of the cgroups that were made
	Processes []*HandedOver
}

// HandedOver is one process of a [Handover].
type HandedOver struct {
	Spec                  *workload.Spec
	Name, Cgroup          string
	Credential            *syscall.Credential
	Started               time.Time
	PID                   int
	PidFD, Stdout, Stderr int
	First                 bool
	Killed                bool
	KilledFor             syscall.Signal
	CPU                   time.Duration // with its parts; 0 of them is from a version that did not tell them apart
	CPUUser, CPUSystem    time.Duration
	MemoryMost            *uint64
}

// Files are the descriptors that have to stay open.
func (h *Handover) Files() (fds []int) {
	if h.Cgroup != "" {
		fds = append(fds, h.Lock)
	}
	for _, p := range h.Processes {
		fds = append(fds, p.PidFD, p.Stdout, p.Stderr)
	}
	return fds
}

// Specs are those of the processes' workloads.
func (h *Handover) Specs() (specs []*workload.Spec) {
	for _, p := range h.Processes {
		specs = append(specs, p.Spec)
	}
	return specs
}

// Commands returns how many commands run in processes, which a handover would cut off.
func (r *Runtime) Commands() (n int) {
	for _, p := range r.All() {
		if o := p.runningOrigin(); o != nil {
			o.execs.mu.Lock()
			n += o.execs.count
			o.execs.mu.Unlock()
		}
	}
	return n
}

// Pause stops following the processes that run, and returns what a successor needs.
// What they wrote is in their logs; what they write from now on waits. The caller sees
// to it that nothing is asked of the runtime until [Runtime.Resume].
func (r *Runtime) Pause() *Handover {
	r.spawner.isolator.close() // which a successor has one of its own of
	h := &Handover{Cgroup: string(r.cgroup), Count: r.count.Load()}
	if r.lock != nil {
		h.Lock = int(r.lock.Fd())
	}
	for _, p := range r.All() {
		if handed := p.pause(); handed != nil {
			h.Processes = append(h.Processes, handed)
		}
	}
	return h
}

// Resume follows the processes again that were paused.
func (r *Runtime) Resume() {
	for _, p := range r.All() {
		if p.isPaused() {
			p.setPaused(false, time.Time{})
			r.follow(p)
		}
	}
}

// pause returns nil for a process that has ended.
func (p *process) pause() *HandedOver {
	select {
	case <-p.done:
		return nil
	default:
	}
	p.setPaused(true, time.Now())
	<-p.following
	select {
	case <-p.done: // it ended at this moment, and was seen to its end
		return nil
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &HandedOver{
		Spec: p.spec, Name: p.name, Cgroup: string(p.origin.group), Credential: p.origin.credential,
		Started: p.started, PID: p.child.pid,
		PidFD: p.child.pidfd, Stdout: p.stdout.fd, Stderr: p.stderr.fd,
		First: p.first, Killed: p.killed, KilledFor: p.killedFor, CPU: p.cpu.total, CPUUser: p.cpu.user, CPUSystem: p.cpu.system, MemoryMost: p.memoryMost,
	}
}

// setPaused has the goroutines that read the process's files stop at a time. One
// that is seen to have ended is left to them.
func (p *process) setPaused(paused bool, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tree == nil {
		return
	}
	p.paused = paused
	for _, f := range []*os.File{p.pidfd, p.stdout.asFile(), p.stderr.asFile()} {
		if f != nil {
			_ = f.SetReadDeadline(at) // it is a pipe or a pidfd, which can be waited for
		}
	}
}

func (p *process) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// takeOver goes on with the processes of an earlier runtime. One that cannot be taken
// over is killed.
func (r *Runtime) takeOver(cfg Config) {
	if r.cgroup = cgroup(cfg.Handover.Cgroup); r.cgroup != "" {
		r.lock = os.NewFile(uintptr(cfg.Handover.Lock), "cgroup")
	}
	r.count.Store(cfg.Handover.Count)
	var err error
	if r.limiter, err = newLimiter(cfg.Name); err != nil {
		r.logger.Info("isolated processes cannot be bounded", "reason", err)
	}
	var failed error
	for _, h := range cfg.Handover.Processes {
		if err := r.adopt(h); err != nil {
			failed = errors.Join(failed, fmt.Errorf("process %d of %s: %w", h.PID, h.Spec.ID, err))
			_ = syscall.Kill(h.PID, syscall.SIGKILL) // it is our child, so it is there
		}
	}
	if failed != nil {
		r.logger.Error("processes are lost that could not be taken over", "error", failed)
	}
}

func (r *Runtime) adopt(h *HandedOver) (err error) {
	p := newProcess(h.Spec, r.logger)
	p.name, p.started, p.first, p.memoryMost = h.Name, h.Started, h.First, h.MemoryMost
	p.cpu = cpuTime{h.CPU, h.CPUUser, h.CPUSystem}
	p.killed, p.killedFor = h.Killed, h.KilledFor
	p.child = child{pid: h.PID, pidfd: h.PidFD}
	p.pidfd = pollable(h.PidFD, "pidfd")
	p.stdout, p.stderr = adoptDrain(h.Stdout), adoptDrain(h.Stderr)
	defer func() {
		if err != nil {
			p.release()
		}
	}()
	if p.logs, err = tasklog.Open(h.Spec.ID, h.Spec.Logs, p.logger); err != nil {
		return err
	}
	env := environment(h.Spec)
	target, err := p.target(h.Credential, env)
	if err != nil {
		return err
	}
	group := cgroup(h.Cgroup)
	if h.Spec.Process.Isolated != nil && r.limiter != nil {
		p.limits = r.limiter.find(h.Name, group)
		r.boundAgain(p)
	}
	if err := r.Add(p); err != nil {
		return err
	}
	p.entered(group)
	p.openExecs(target, h.Credential, env, group)
	r.follow(p)
	return nil
}
