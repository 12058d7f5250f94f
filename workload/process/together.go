package process

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/workload"
)

// together has the cgroups that bound the isolated processes of a task together: of a
// workload and those that stand beside it. Each process has cgroups of its own in them,
// with the same limits, so that what each uses, and which of them was killed for want of
// memory, is told apart.
type together struct {
	mu sync.Mutex
	of map[string]*shared // by the ID of the workload that the others stand beside
}

// shared are the cgroups of one task. They are there until each process that joined has
// left; a nil one has none.
type shared struct {
	of      *together
	key     string
	name    string
	members int // guarded by together

	once   sync.Once // makes them
	failed error     // to be made
	group  cgroup    // of v2; empty: there is none
	limits *limits
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

// leave removes the cgroups when nobody is in them any more. Who joins next has others.
func (s *shared) leave() error {
	if s == nil || !s.last() || s.limits == nil {
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
func (r *Runtime) bound(p *process) (err error) {
	p.shared = r.together.join(keyOf(p.spec), p.name)
	p.shared.once.Do(func() { p.shared.failed = r.makeShared(p.shared, p.spec) })
	if p.shared.failed != nil {
		return p.shared.failed
	}
	p.name = filepath.Join(p.shared.name, p.name)
	return nil
}

func (r *Runtime) makeShared(s *shared, spec *workload.Spec) (err error) {
	if r.cgroup != "" {
		if s.group, err = r.cgroup.child(s.name); err != nil {
			return err
		}
	}
	s.limits, err = r.limiter.limit(s.name, s.group, spec)
	if err != nil && s.group != "" {
		err = errors.Join(err, s.group.remove())
	}
	return err
}

// boundAgain finds what another runtime gave a process. One that was started by a version
// that bounded each process alone is not bounded with others.
func (r *Runtime) boundAgain(p *process) {
	name, _, together := strings.Cut(p.name, "/")
	if !together {
		return
	}
	p.shared = r.together.join(keyOf(p.spec), name)
	p.shared.once.Do(func() {
		if r.cgroup != "" {
			p.shared.group = cgroup(filepath.Join(string(r.cgroup), p.shared.name))
		}
		p.shared.limits = r.limiter.find(p.shared.name, p.shared.group)
	})
}
