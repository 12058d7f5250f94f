package supervisor

// Needed returns how many clients and workloads a server has.
func (s *Server) Needed() (clients, workloads int) {
	s.idle.mu.Lock()
	defer s.idle.mu.Unlock()
	return len(s.idle.connections), s.idle.running
}

// BeIdle has the time be over that a server stays without being needed, and reports
// whether it ends.
func (s *Server) BeIdle() bool {
	s.idle.expire()
	return s.idle.hasExpired()
}
