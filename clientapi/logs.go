package clientapi

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// LogsDir is where the logs of an allocation's tasks are, as clients see it.
const LogsDir = "alloc/logs"

// CheckStream refuses what is no stream of a task.
func CheckStream(stream string) error {
	if stream != "stdout" && stream != "stderr" {
		return invalid("must provide log type (stdout/stderr)")
	}
	return nil
}

// Position is where reading a log or a file begins: so many bytes from its start or from its
// end, as origin says; "" is its start.
func Position(origin string, offset int64) (logfile.Options, error) {
	o := logfile.Options{Offset: offset}
	if offset < 0 {
		return o, invalid("error parsing offset: \"%d\" is not a byte count", offset)
	}
	switch origin {
	case "", nomad.OriginStart:
	case nomad.OriginEnd:
		o.FromEnd = true
		o.NewestFile = offset == 0 // as Nomad does, and its command line counts on
	default:
		return o, invalid("must have a start or end origin value, not %q", origin)
	}
	return o, nil
}

func invalid(format string, args ...any) error {
	return errdefs.New(errdefs.InvalidArgument, "%s", fmt.Sprintf(format, args...))
}
