package structs

// Deref returns what p points to, and the zero value where p is nil: Nomad's job types have
// pointers wherever a job file may leave something out.
func Deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
