package process

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// KeepOthersOut has no supervisor of another process tidy up among those whose names begin
// with this one and a slash, until it is let go of.
func KeepOthersOut(name string) (letGo func() error, err error) {
	dir, lock, err := openCgroup(name)
	return func() error { return errors.Join(dir.remove(), lock.Close()) }, err
}

// WaitForOutput has those that hold a process's output be waited for that long, until it is
// undone.
func WaitForOutput(patience time.Duration) (undo func()) {
	before := drainPatience
	drainPatience = patience
	return func() { drainPatience = before }
}

// ReadLate returns what is read of a text that is in a pipe when the time for reading it is
// over before anybody does; whoever wrote it still has the pipe.
func ReadLate(text string) (string, error) {
	d, theirs, err := newDrain()
	if err != nil {
		return "", err
	}
	defer d.close()
	defer theirs.Close()
	if _, err := io.WriteString(theirs, text); err != nil {
		return "", err
	}
	d.endAfter(0)
	var read strings.Builder
	d.copyTo(&read)
	return read.String(), nil
}

// HasCgroup reports whether processes run in cgroups.
func (s *Supervisor) HasCgroup() bool { return s.cgroup != "" }

// WithoutCgroup makes the supervisor one of a machine that has no cgroup for it.
func (s *Supervisor) WithoutCgroup() error {
	err := errors.Join(s.cgroup.remove(), s.lock.Close())
	s.cgroup = ""
	return err
}

// CgroupExists reports whether the supervisor's cgroup is there.
func (s *Supervisor) CgroupExists() bool {
	_, err := os.Stat(string(s.cgroup))
	return err == nil
}

// Unlock makes the supervisor's cgroup one that a killed supervisor left.
func (s *Supervisor) Unlock() error { return s.lock.Close() }

// Limits returns the cgroups in which isolated processes have theirs.
func (s *Supervisor) Limits() (dirs []string) {
	for _, dir := range append(slices.Collect(maps.Values(s.limiter.v1)), string(s.cgroup)) {
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Groups returns the cgroups of processes that are there.
func (s *Supervisor) Groups() (groups []string) {
	parents := []string{string(s.cgroup)}
	for _, dir := range s.limiter.v1 {
		parents = append(parents, dir)
	}
	for _, parent := range parents {
		entries, _ := os.ReadDir(parent) // what is not there has none
		for _, e := range entries {
			if e.IsDir() {
				groups = append(groups, filepath.Join(parent, e.Name()))
			}
		}
	}
	return groups
}
