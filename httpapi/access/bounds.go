package access

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is what a request keeps busy, and so what it is counted as.
type Kind string

// The kinds.
const (
	Reads   Kind = "reads"   // answered at once, without a body
	Bodies  Kind = "bodies"  // one that sends something: it is read first
	Streams Kind = "streams" // one that may take as long as its client likes
)

// endless are the streams that may have no end of their own.
var endless = []string{"/v1/event/stream", "/v1/agent/monitor", "/v1/agent/monitor/export"}

// kindOf tells what a request keeps busy: blocking queries, logs, files and websockets are
// streams. All of them are reads: whatever else a request with a body says that it is, its
// body is held in memory.
func kindOf(r *http.Request) Kind {
	switch {
	case r.ContentLength != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return Bodies
	case r.Header.Get("Upgrade") != "", strings.HasPrefix(r.URL.Path, "/v1/client/fs/"), slices.Contains(endless, r.URL.Path), followsPlugin(r.URL.Path),
		r.URL.Query().Get("index") != "":
		return Streams
	case r.ContentLength != 0:
		return Bodies
	}
	return Reads
}

// followsPlugin reports whether a request is for what a plugin logs, or does, as it happens.
func followsPlugin(path string) bool {
	rest, is := strings.CutPrefix(path, "/v1/agent/plugin/")
	return is && (strings.HasSuffix(rest, "/logs") || strings.HasSuffix(rest, "/trace") || strings.HasSuffix(rest, "/record"))
}

// Limits bounds what is served at once. Each kind has its own, so that what fills one
// does not keep the others out.
type Limits struct {
	Reads, Bodies, Streams int
	// Preparing is how many answers to reads are put together at once.
	Preparing int
	// Answers is how much of large answers may wait to be read by clients, in bytes.
	Answers int
	// Connections are the open ones, idle ones included.
	Connections int
	// Body is how long a request's body may take to arrive.
	Body time.Duration
	// Patience is how long a request waits for others to end before it is refused.
	Patience time.Duration
}

// DefaultLimits suits one machine: 64 bodies of 10 MiB are all that can be in memory, a
// stream costs some 50 KiB, and a connection that waits 10 KiB.
func DefaultLimits() Limits {
	return Limits{
		Reads: 256, Bodies: 64, Streams: 1024, Preparing: max(4, runtime.GOMAXPROCS(0)), Answers: 256 << 20, Connections: 2048,
		Body: 30 * time.Second, Patience: time.Second,
	}
}

// Bounds counts what is served. It is a [prometheus.Collector] of itself, safe for
// concurrent use.
type Bounds struct {
	limits      Limits
	slots       map[Kind]chan struct{}
	connections connections
	refused     *prometheus.CounterVec
	handshakes  prometheus.Counter
	inFlight    *prometheus.Desc

	preparing chan struct{}
	mu        sync.Mutex
	held      int // bytes of large answers
}

// NewBounds returns bounds with nothing in them. Every limit has to be positive.
func NewBounds(l Limits) *Bounds {
	return &Bounds{
		limits: l,
		slots: map[Kind]chan struct{}{
			Reads: make(chan struct{}, l.Reads), Bodies: make(chan struct{}, l.Bodies), Streams: make(chan struct{}, l.Streams),
		},
		preparing:   make(chan struct{}, l.Preparing),
		connections: connections{limit: int64(l.Connections)},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wasmnode_http_refused_total", Help: "Requests and connections that were not served, by reason.",
		}, []string{"reason"}),
		handshakes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "wasmnode_http_handshakes_failed_total", Help: "Connections that did not come to speak TLS.",
		}),
		inFlight: prometheus.NewDesc("wasmnode_http_in_flight", "What is served now, by kind.", []string{"kind"}, nil),
	}
}

// HandshakeFailed counts a connection that did not come to speak TLS.
func (b *Bounds) HandshakeFailed() { b.handshakes.Inc() }

// Seat is the place of a request among those of its kind.
type Seat struct {
	bounds *Bounds
	kind   Kind
}

// Leave gives the place to another.
func (s *Seat) Leave() { <-s.bounds.slots[s.kind] }

// Become takes a place of another kind instead, of which the request is from now on. Where
// there is none at once, it is a [Refusal].
func (s *Seat) Become(kind Kind) error {
	if s.kind == kind {
		return nil
	}
	select {
	case s.bounds.slots[kind] <- struct{}{}:
		s.Leave()
		s.kind = kind
		return nil
	default:
		return tooMany(string(kind))
	}
}

// Enter counts a request until it leaves its seat. At the bound it waits a little for
// another to end; the error is a [Refusal].
func (b *Bounds) Enter(r *http.Request) (*Seat, error) {
	if isExtra(r.Context()) {
		return nil, tooMany("connections")
	}
	kind := kindOf(r)
	slots := b.slots[kind]
	seat := &Seat{b, kind}
	select {
	case slots <- struct{}{}:
		return seat, nil
	default:
	}
	patience := time.NewTimer(b.limits.Patience)
	defer patience.Stop()
	select {
	case slots <- struct{}{}:
		return seat, nil
	case <-patience.C:
	case <-r.Context().Done():
	}
	return nil, tooMany(string(kind))
}

func tooMany(reason string) error {
	return &Refusal{http.StatusTooManyRequests, reason, "the node serves as many " + reason + " as it can at once: try again later"}
}

// Count counts a refusal of the given reason.
func (b *Bounds) Count(reason string) { b.refused.WithLabelValues(reason).Inc() }

// BodyTimeout is how long a request's body may take to arrive.
func (b *Bounds) BodyTimeout() time.Duration { return b.limits.Body }

// Describe implements [prometheus.Collector].
func (b *Bounds) Describe(out chan<- *prometheus.Desc) {
	b.refused.Describe(out)
	b.handshakes.Describe(out)
	out <- b.inFlight
}

// Collect implements [prometheus.Collector].
func (b *Bounds) Collect(out chan<- prometheus.Metric) {
	b.refused.Collect(out)
	b.handshakes.Collect(out)
	for kind, slots := range b.slots {
		out <- prometheus.MustNewConstMetric(b.inFlight, prometheus.GaugeValue, float64(len(slots)), string(kind))
	}
	out <- prometheus.MustNewConstMetric(b.inFlight, prometheus.GaugeValue, float64(b.connections.open.Load()), "connections")
}
