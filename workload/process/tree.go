package process

import (
	"errors"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// tree is a process with all that it started.
type tree interface {
	// kill kills all that is in the tree now.
	kill() error
	// end kills until nothing is left, and frees what the tree held. The leader has
	// ended, and its number is not another's yet.
	end() error
	// memory returns the memory that the tree uses, and the most that it ever used; nil:
	// that is not known.
	memory() (now uint64, most *uint64, err error)
	// cpu returns the processor time of the tree since its start.
	cpu() (cpuTime, error)
}

// cpuTime is processor time: all of it, and the parts in programs and in the kernel.
type cpuTime struct{ total, user, system time.Duration }

// atLeast is each time or the one before, whichever is longer: what ran does not become
// less because a process has gone.
func (c cpuTime) atLeast(before cpuTime) cpuTime {
	return cpuTime{max(c.total, before.total), max(c.user, before.user), max(c.system, before.system)}
}

// treeOf returns the tree of a process that leads a session, and has that cgroup if it
// has one.
func treeOf(leader int, group cgroup) tree {
	if group != "" {
		return group
	}
	return session{leader}
}

// end implements [tree].
func (g cgroup) end() error { return errors.Join(g.kill(), g.remove()) }

// memory implements [tree].
func (g cgroup) memory() (uint64, *uint64, error) {
	pids, err := g.processes()
	return residents(pids), nil, err
}

// session is a tree where there is no cgroup: a process's group and its session, as
// /proc shows them. It does not find a daemon that made a session of its own.
type session struct{ leader int }

// kill implements [tree].
func (s session) kill() error {
	_, err := s.killOnce()
	return err
}

// killOnce kills what is in the session and returns how many there were.
func (s session) killOnce() (int, error) {
	// The group at once: nothing in it can fork meanwhile.
	if err := syscall.Kill(-s.leader, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return 0, err
	}
	_ = syscall.Kill(s.leader, syscall.SIGKILL) // which may have no session yet
	members, err := s.members()
	for _, m := range members {
		_ = syscall.Kill(m.PID, syscall.SIGKILL) // it may have gone
	}
	return len(members), err
}

// end implements [tree].
func (s session) end() error {
	for deadline := time.Now().Add(endTimeout); ; time.Sleep(time.Millisecond) {
		n, err := s.killOnce()
		switch {
		case err != nil || n == 0:
			return err
		case time.Now().After(deadline):
			return errors.New("its processes do not end")
		}
	}
}

// memory implements [tree].
func (s session) memory() (uint64, *uint64, error) {
	pids, err := s.processes()
	return residents(pids), nil, err
}

// processes returns the living processes of the session.
func (s session) processes() ([]int, error) {
	members, err := s.members()
	pids := make([]int, len(members))
	for i, m := range members {
		pids[i] = m.PID
	}
	return pids, err
}

// members returns them as found in /proc.
func (s session) members() ([]procfs.ProcStat, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var members []procfs.ProcStat
	for _, p := range all {
		// One that cannot be read has gone.
		if stat, err := p.Stat(); err == nil && stat.Session == s.leader && stat.State != "Z" {
			members = append(members, stat)
		}
	}
	return members, nil
}

// cpu implements [tree]. It misses those that ended without their parent waiting.
func (s session) cpu() (cpuTime, error) {
	members, err := s.members()
	var user, system uint
	for _, m := range members {
		user += m.UTime + uint(max(0, m.CUTime))
		system += m.STime + uint(max(0, m.CSTime))
	}
	const tick = time.Second / userHZ
	return cpuTime{time.Duration(user+system) * tick, time.Duration(user) * tick, time.Duration(system) * tick}, err
}

// userHZ is the unit of times in /proc, on every architecture that Go knows.
const userHZ = 100
