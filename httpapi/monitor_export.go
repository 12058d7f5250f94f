package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/workload/logfile"
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

// errNoLogFile has Nomad's words: an agent's own log goes to where it was started from.
var errNoLogFile = badRequest("No nomad log file defined")

// monitorExport sends what a service has logged: as frames of JSON, or as it is with
// plain=true.
func (h *handler) monitorExport(w http.ResponseWriter, r *http.Request) error {
	query, err := h.exportQuery(r)
	if err != nil {
		return err
	}
	plain, err := boolParameter(r, "plain")
	if err != nil {
		return err
	}
	if h.Journal == nil {
		return badRequest("this agent cannot read a journal")
	}
	select {
	case h.journals <- struct{}{}:
		defer func() { <-h.journals }()
	default:
		return &statusError{http.StatusTooManyRequests, "the journal is read as often at once as it can be: try again later"}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	journal, err := h.Journal(ctx, query)
	if err != nil {
		return badRequest("the journal cannot be read: %v", err)
	}
	defer journal.Close()
	sink := newFrameSink(w, plain, "")
	defer sink.heartbeats(ctx)()
	if err := sink.copy(journal); err != nil {
		if !sink.begun() {
			return badRequest("the journal cannot be read: %v", err)
		}
		panic(http.ErrAbortHandler) // the status is sent: all that is left is to end the answer short
	}
	return sink.finish()
}

// copy sends all that a reader has. A client that is gone is no error.
func (s *frameSink) copy(from io.Reader) error {
	piece := make([]byte, logfile.ChunkBytes)
	var offset int64
	for {
		n, err := from.Read(piece)
		if n > 0 {
			offset += int64(n)
			if s.send(logfile.Chunk{Data: piece[:n], Offset: offset}) != nil {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// exportQuery reads what is to be exported, and refuses what Nomad refuses, in its words and
// order.
func (h *handler) exportQuery(r *http.Request) (JournalQuery, error) {
	v := r.URL.Query()
	q := JournalQuery{Service: v.Get("service_name"), Since: defaultSince}
	if err := h.checkAgent(r); err != nil {
		return q, err
	}
	onDisk, err := boolParameter(r, "on_disk")
	if err != nil {
		return q, badRequest("Unknown value for on-disk: %v", err)
	}
	if q.Follow, err = boolParameter(r, "follow"); err != nil {
		return q, badRequest("Unknown value for follow: %v", err)
	}
	if s := v.Get("logs_since"); s != "" {
		if q.Since, err = time.ParseDuration(s); err != nil {
			return q, badRequest("Unknown value for logs-since: %v", err)
		}
		if q.Since < time.Second {
			return q, badRequest("Unknown value for logs-since: %s is not a second ago", s)
		}
	}
	switch {
	case onDisk && q.Service != "":
		return q, badRequest("Cannot target journald and nomad log file simultaneously")
	case onDisk && q.Follow:
		return q, badRequest("Cannot follow log file")
	case onDisk:
		return q, errNoLogFile
	case q.Service == "":
		return q, badRequest("Either -service-name or -on-disk must be set")
	}
	return q, checkUnit(q.Service)
}

// unit is what the name of a systemd unit may be, without the patterns that journalctl would
// take for several.
var unit = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9:_.@-]{0,254}$`)

// checkUnit refuses services that are not the agent: nobody reads another's log here.
func checkUnit(name string) error {
	if !strings.Contains(name, "nomad") && !strings.Contains(name, "wasmnode") {
		return &statusError{http.StatusUnprocessableEntity, "service name must include 'wasmnode' or 'nomad'"}
	}
	if !unit.MatchString(name) {
		return &statusError{http.StatusUnprocessableEntity, "service name is not the name of a unit of systemd"}
	}
	return nil
}
