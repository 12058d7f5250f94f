// Package jobpayload unpacks what servers of Nomad keep packed of a dispatched job. It knows nothing
// of who asks for it.
package jobpayload

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/klauspost/compress/snappy"
)

// Max is how many bytes a payload may have; servers take far fewer.
const Max = 1 << 20

// Unpack has a dispatched job have its payload as it was given. A job without one, or none, stays as it is.
func Unpack(job *nomad.Job) error {
	if job == nil || len(job.Payload) == 0 {
		return nil
	}
	size, err := snappy.DecodedLen(job.Payload)
	switch {
	case err != nil:
		return fmt.Errorf("its job's payload cannot be read: %w", err)
	case size > Max:
		return fmt.Errorf("its job's payload has %d bytes; at most %d are possible", size, Max)
	}
	if job.Payload, err = snappy.Decode(nil, job.Payload); err != nil {
		return fmt.Errorf("its job's payload cannot be read: %w", err)
	}
	return nil
}
