package access

import "context"

// smallAnswer is what an answer may have, in bytes, without being counted: all that can be
// served at once have less than 100 MB together then.
const smallAnswer = 64 << 10

// Prepare waits until another answer may be put together, until done is called. Whoever asks
// for a large one many times at once has them made one after another, and not all of them be
// in memory. The error is ctx's.
func (b *Bounds) Prepare(ctx context.Context) (done func(), err error) {
	select {
	case b.preparing <- struct{}{}:
		return func() { <-b.preparing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hold counts an answer of a size in bytes until sent is called: a client may take its time to
// read it. The error is a [Refusal]: too much waits to be read already. One answer alone may
// be larger than the limit.
func (b *Bounds) Hold(size int) (sent func(), err error) {
	if size <= smallAnswer {
		return func() {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held > 0 && b.held+size > b.limits.Answers {
		return nil, tooMany("large answers")
	}
	b.held += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.held -= size
	}, nil
}
