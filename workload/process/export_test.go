package process

// HasCgroup reports whether processes run in cgroups.
func (s *Supervisor) HasCgroup() bool { return s.cgroup != "" }

// WithoutCgroup makes the supervisor one of a machine that has no cgroup for it.
func (s *Supervisor) WithoutCgroup() error {
	err := s.cgroup.remove()
	s.cgroup = ""
	return err
}
