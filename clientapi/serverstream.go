package clientapi

// ServerStream is a streaming request that the servers of a cluster answer for a caller of the node,
// as the log of another node's task. One goroutine at a time reads, and several may send; Close may
// be called at any time, and ends both. Errors of reading that are a server's answer have an
// HTTPStatus.
type ServerStream interface {
	// Receive reads the bytes of the next frame; io.EOF: there will be none.
	Receive() ([]byte, error)
	// Decode reads the next value, into a struct, and Read what is none: for requests whose answer
	// is no frames.
	Decode(v any) error
	Read(p []byte) (int, error)
	// SendValue sends a value as it is, SendBytes bytes in frames, and SendFailure a frame that says why
	// there are no more.
	SendValue(v any) error
	SendBytes(b []byte) error
	SendFailure(text string) error
	Close()
}
