package clientapi

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// journalsAtOnce bounds the readers of the machine's journal: each is a process.
const journalsAtOnce = 4

// defaultSince is how far back a journal is read, as with Nomad.
const defaultSince = 72 * time.Hour

// JournalQuery is what is read of the machine's journal.
type JournalQuery struct {
	Service string        // a unit of systemd
	Since   time.Duration // how long ago it begins; positive
	Follow  bool          // what comes is read too, until the context is done
}

// OpenJournal reads the machine's journal, until it is closed or ctx is done.
type OpenJournal func(ctx context.Context, q JournalQuery) (io.ReadCloser, error)

// Journals has the machine's journal read, by few at once. It is safe for concurrent use.
type Journals struct {
	open    OpenJournal
	reading chan struct{} // journalsAtOnce
}

// NewJournals returns what has the journal read; with open nil, it cannot be.
func NewJournals(open OpenJournal) *Journals {
	return &Journals{open: open, reading: make(chan struct{}, journalsAtOnce)}
}

// Export sends what a query asks for, until the journal is at its end or ctx is done.
//
// # Errors
//
// errdefs.InvalidArgument: it cannot be read, which may show once some of it was sent.
// errdefs.ResourceExhausted: too many read it.
func (j *Journals) Export(ctx context.Context, q JournalQuery, to *Frames) error {
	if j.open == nil {
		return invalid("this agent cannot read a journal")
	}
	select {
	case j.reading <- struct{}{}:
		defer func() { <-j.reading }()
	default:
		return errdefs.NewRecoverable(errdefs.ResourceExhausted, "the journal is read as often at once as it can be: try again later")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	journal, err := j.open(ctx, q)
	if err != nil {
		return invalid("the journal cannot be read: %v", err)
	}
	defer journal.Close()
	defer to.Heartbeats(ctx)()
	if err := to.Copy(journal); err != nil {
		return invalid("the journal cannot be read: %v", err)
	}
	return nil
}

// ExportQuery is what is asked of the logs of a service, with Nomad's names. Since is a duration;
// "": as far back as Nomad goes.
type ExportQuery struct {
	Service        string
	Since          string
	OnDisk, Follow bool
}

// Journal returns what is to be read, and refuses what Nomad refuses, in its words and order. An
// agent has no log file: its own log goes to where it was started from.
func (e ExportQuery) Journal() (JournalQuery, error) {
	q := JournalQuery{Service: e.Service, Since: defaultSince, Follow: e.Follow}
	if e.Since != "" {
		var err error
		if q.Since, err = time.ParseDuration(e.Since); err != nil {
			return q, invalid("Unknown value for logs-since: %v", err)
		}
		if q.Since < time.Second {
			return q, invalid("Unknown value for logs-since: %s is not a second ago", e.Since)
		}
	}
	switch {
	case e.OnDisk && e.Service != "":
		return q, invalid("Cannot target journald and nomad log file simultaneously")
	case e.OnDisk && e.Follow:
		return q, invalid("Cannot follow log file")
	case e.OnDisk:
		return q, invalid("No nomad log file defined")
	case e.Service == "":
		return q, invalid("Either -service-name or -on-disk must be set")
	}
	return q, checkUnit(e.Service)
}

// unit is what the name of a systemd unit may be, without the patterns that journalctl would
// take for several.
var unit = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9:_.@-]{0,254}$`)

// ErrNotOurUnit is why the journal of a service is not shown: it is not the agent's, and nobody
// reads another's log here.
var ErrNotOurUnit = errors.New("service name must include 'wasmnode' or 'nomad'")

// ErrNoUnit is why the journal of a service is not shown: none can have that name.
var ErrNoUnit = errors.New("service name is not the name of a unit of systemd")

func checkUnit(name string) error {
	if !strings.Contains(name, "nomad") && !strings.Contains(name, "wasmnode") {
		return ErrNotOurUnit
	}
	if !unit.MatchString(name) {
		return ErrNoUnit
	}
	return nil
}
