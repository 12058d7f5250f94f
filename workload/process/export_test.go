package process

import (
	"os"
	"path/filepath"
)

// HasCgroup reports whether processes run in cgroups.
func (s *Supervisor) HasCgroup() bool { return s.cgroup != "" }

// WithoutCgroup makes the supervisor one of a machine that has no cgroup for it.
func (s *Supervisor) WithoutCgroup() error {
	err := s.cgroup.remove()
	s.cgroup = ""
	return err
}

// CgroupExists reports whether the supervisor's cgroup is there.
func (s *Supervisor) CgroupExists() bool {
	_, err := os.Stat(string(s.cgroup))
	return err == nil
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
