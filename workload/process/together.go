package process

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// together has the cgroups that bound the isolated processes of a task together: of a
// workload and those that stand beside it. Each process has cgroups of its own in them,
// with the same limits, so that what each uses, and which of them was killed for want of
// memory, is told apart. Where the workload is a WASI program, which is in no cgroup, they
// have what its memory leaves of the task's.
type together struct {
	mu sync.Mutex
	of map[string]*shared // by the ID of the workload that the others stand beside
}

// shared are the cgroups of one task. They are there until each process that joined, and
// the program that they stand beside, has left; a nil one has none.
type shared struct {
	of      *together
	key     string
	name    string
	members int // guarded by together

	// mu guards what follows. It is held while the kernel is told, since who is told last counts.
	mu        sync.Mutex
	made      bool
	processes int    // that are bounded
	group     cgroup // of v2; empty: there is none
	limits    *limits
	memory    uint64 // what the task may use, once it is made
	left      uint64 // what processes may use of that
	program   uint64 // what a WASI program has
}

// keyOf is what isolated processes that are bounded together have in common.
func keyOf(spec *workload.Spec) string {
	if spec.Beside != "" {
		return spec.Beside
	}
	return spec.ID
}

// join returns the cgroups of a task, of that name if it has none yet. Nothing is made.
func (t *together) join(key, name string) *shared {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[key]
	if s == nil {
		if t.of == nil {
			t.of = map[string]*shared{}
		}
		s = &shared{of: t, key: key, name: name}
		t.of[key] = s
	}
	s.members++
	return s
}

// leave is called when a process that was bounded has ended.
func (s *shared) leave() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.processes--
	s.mu.Unlock()
	return s.part()
}

// part removes the cgroups when nobody is in them any more. Who joins next has others.
func (s *shared) part() error {
	if !s.last() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits == nil {
		return nil
	}
	err := s.limits.remove()
	if s.group != "" {
		err = errors.Join(err, s.group.remove())
	}
	return err
}

func (s *shared) last() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.members--; s.members > 0 {
		return false
	}
	delete(s.of.of, s.key)
	return true
}

// bound gives a process cgroups of its own in those of its task.
func (r *Runtime) bound(p *process) error {
	s := r.together.join(keyOf(p.spec), p.name)
	if err := r.admit(s, p.spec); err != nil {
		return errors.Join(err, s.part())
	}
	p.shared, p.name = s, filepath.Join(s.name, p.name)
	return nil
}

// admit has the cgroups of a task leave what its processes may use, of whom there is one more. What
// fails is tried again by the next.
func (r *Runtime) admit(s *shared, spec *workload.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.program > 0 && s.program+minMemory > spec.MemoryMaxBytes {
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("the task's program has %d of its %d bytes of memory: an isolated process needs %d at least", s.program, spec.MemoryMaxBytes, minMemory))
	}
	var err error
	if s.made {
		err = s.setLeft(s.memory - s.program)
	} else {
		err = r.makeShared(s, spec)
	}
	if err != nil {
		return noCgroup(err)
	}
	s.processes++
	return nil
}

// makeShared makes the cgroups of a task. The lock is held.
func (r *Runtime) makeShared(s *shared, spec *workload.Spec) (err error) {
	if r.cgroup != "" {
		if s.group, err = r.cgroup.child(s.name); err != nil {
			return err
		}
	}
	left := *spec
	left.MemoryMaxBytes -= s.program
	if s.limits, err = r.limiter.limit(s.name, s.group, &left); err != nil {
		if s.group != "" {
			err = errors.Join(err, s.group.remove())
		}
		s.group, s.limits = "", nil
		return err
	}
	s.made, s.memory, s.left = true, spec.MemoryMaxBytes, left.MemoryMaxBytes
	return nil
}

// setLeft changes what processes may use. The lock is held.
func (s *shared) setLeft(bytes uint64) error {
	if bytes == s.left {
		return nil
	}
	if err := s.limits.setMemory(bytes, bytes > s.left); err != nil {
		return err
	}
	s.left = bytes
	return nil
}

// ShareMemory bounds a WASI program together with the isolated processes beside it: take reports
// whether the program's memory may become so large, in bytes, and if so leaves the processes the
// rest of the task's. It is not to be called after leave, which is called once.
func (r *Runtime) ShareMemory(program string) (take func(bytes uint64) bool, leave func()) {
	if r.limiter == nil {
		return func(uint64) bool { return true }, func() {}
	}
	s := r.together.join(program, strconv.FormatUint(r.count.Add(1), 10))
	return s.take, func() {
		if err := s.part(); err != nil {
			r.logger.Warn("cgroups of a program's processes are left over", "id", program, "error", err)
		}
	}
}

// take is that of [Runtime.ShareMemory]. What processes use already is not taken away from
// them: the kernel would kill one for it.
func (s *shared) take(bytes uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes > 0 {
		if bytes > s.memory {
			return false
		}
		left := s.memory - bytes
		if left < s.left && !s.limits.canShrink(left) || s.setLeft(left) != nil {
			return false
		}
	}
	s.program = bytes
	return true
}

// boundAgain finds what another runtime gave a process. One that was started by a version
// that bounded each process alone is not bounded with others. There is no program, which no
// other runtime goes on with.
func (r *Runtime) boundAgain(p *process) {
	name, _, together := strings.Cut(p.name, "/")
	if !together {
		return
	}
	s := r.together.join(keyOf(p.spec), name)
	p.shared = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes++
	if s.made {
		return
	}
	if r.cgroup != "" {
		s.group = cgroup(filepath.Join(string(r.cgroup), s.name))
	}
	s.limits = r.limiter.find(s.name, s.group)
	s.made, s.memory, s.left = true, p.spec.MemoryMaxBytes, p.spec.MemoryMaxBytes
}
