package process

import "os"

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
