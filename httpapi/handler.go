package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/httpapi/telemetry"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/structs"
)

// maxBody bounds a request's body: 10 MiB, far above any job that a person wrote.
const maxBody = 10 << 20

// Config configures the API. All fields are required, but for Servers, Telemetry, Hosts, ACL, NoPage,
// Debug, Reload, Logs, Machine, Journal and Bounds.
type Config struct {
	Logger       hclog.Logger
	ControlPlane ControlPlane
	// Servers decide instead of the control plane, where the node is a client of a cluster: they are
	// asked what is not of the node, and who a token is of. nil: it is not.
	Servers Servers
	Node    Node
	Plugins Plugins
	Metrics prometheus.Gatherer
	// Telemetry is what is shown of them, and of the API's own.
	Telemetry telemetry.Options
	Agent     AgentInfo
	// Conditions are what the operator has to know about the agent now.
	Conditions func() []structs.Condition
	// Hosts are names by which the node may be asked, besides addresses and localhost.
	Hosts []string
	// ACL has requests need tokens.
	ACL bool
	// NoPage leaves out the node's web page.
	NoPage bool
	// Debug shows what the agent itself is doing to whoever may read, where there are no ACLs.
	Debug bool
	// Reload has the agent read its configuration again; nil: it cannot.
	Reload func(ctx context.Context) error
	// Logs is where the agent's log can be followed; nil: it cannot.
	Logs clientapi.LogSinks
	// Machine describes the machine; nil: nothing is told of it.
	Machine func() clientapi.Machine
	// Journal reads the machine's journal, until it is closed or ctx is done; nil: it cannot.
	Journal clientapi.OpenJournal
	// Issuer is the URL that the tokens of tasks name as theirs; empty: they name none.
	Issuer string
	// Bounds is what is served at once; nil: as much as the default limits say.
	Bounds *access.Bounds
	// Traces are of requests that make evaluations; nil: there are none.
	Traces *tracing.Tracer
}

// AgentInfo is the agent's description of itself.
type AgentInfo struct {
	NodeID     string
	Name       string
	Region     string
	Datacenter string
	Version    string
	Address    string // of the HTTP API: HOST:PORT, or unix:// and a socket's path
}

// handler answers requests; it has no state of its own but what it has rendered.
type handler struct {
	Config
	mux *http.ServeMux
	// routes are the patterns of what is served, each with its method.
	routes []string
	// parsing is taken by the job files that are read.
	parsing chan struct{}
	// shaking is taken by the websockets that have still to show a token.
	shaking  chan struct{}
	patience time.Duration // of these for their clients
	journals *clientapi.Journals
	policy   *access.Policy
	started  time.Time
	// rendered shares the rendering of events among who watches them.
	rendered *renderedBatches
}

// Handler returns the HTTP API. It is safe for concurrent use. A request ends when
// its context does; streams and blocking queries then return at once.
func Handler(cfg Config) http.Handler {
	api, _ := Handlers(cfg, nil)
	return api
}

// Handlers returns the HTTP API, and the same for tasks, within bounds of its own: there, every
// request has to show a token that is good, whether ACLs are on or not.
func Handlers(cfg Config, forTasks *access.Bounds) (api, tasks http.Handler) {
	requests := newRequestMetrics()
	cfg.Metrics = prometheus.Gatherers{cfg.Metrics, requests.registry}
	if api = requests.observe(newHandler(cfg)); !cfg.NoPage {
		api = withPages(api, cfg)
	}
	cfg.Bounds = forTasks
	h := newHandler(cfg)
	h.policy.Tasks = true
	if cfg.Servers != nil {
		h.policy.Rights = rightsAtServers(cfg.Servers)
	}
	return api, requests.observe(h)
}

func newHandler(cfg Config) *handler {
	if cfg.Bounds == nil {
		cfg.Bounds = access.NewBounds(access.DefaultLimits())
	}
	h := &handler{Config: cfg, mux: http.NewServeMux(), parsing: make(chan struct{}, parsesAtOnce), shaking: make(chan struct{}, maxHandshakes), patience: handshakeTime, policy: policy(cfg), started: time.Now()}
	h.journals = clientapi.NewJournals(cfg.Journal)
	server := prometheus.NewRegistry()
	if cfg.Servers == nil {
		server.MustRegister(serverMetrics{h})
	}
	h.Metrics = telemetry.Show(prometheus.Gatherers{cfg.Metrics, server}, cfg.Telemetry)
	h.jobRoutes()
	h.scalingRoutes()
	h.allocationRoutes()
	h.evaluationRoutes()
	h.deploymentRoutes()
	h.nodeRoutes()
	h.poolRoutes()
	h.namespaceRoutes()
	h.serviceRoutes()
	h.volumeRoutes()
	h.variableRoutes()
	h.keyringRoutes()
	h.identityRoutes()
	h.clientRoutes()
	h.agentRoutes()
	h.operatorRoutes()
	h.schedulerRoutes()
	h.aclRoutes()
	h.aclPolicyRoutes()
	h.aclRoleRoutes()
	h.metricRoutes()
	h.snapshotRoutes()
	h.eventRoutes()
	h.searchRoutes()
	h.absentRoutes()
	h.raftRoutes()
	h.monitorRoutes()
	h.pluginRoutes()
	h.hostRoutes()
	h.mux.HandleFunc("/", h.unrouted)
	return h
}

// unrouted answers what no route takes: 405 when another method would be taken.
func (h *handler) unrouted(w http.ResponseWriter, r *http.Request) {
	for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := h.mux.Handler(other); pattern != "/" {
			h.fail(w, r, &statusError{http.StatusMethodNotAllowed, "Invalid method"})
			return
		}
	}
	h.fail(w, r, noEndpoint(r))
}

func noEndpoint(r *http.Request) error { return notFound("no such endpoint: %s", r.URL.Path) }

// recovered, deferred, turns a panic of ours into a 500, so that one request cannot end
// the agent. The panic that breaks an answer off goes on to the HTTP server.
func (h *handler) recovered(w http.ResponseWriter, r *http.Request) {
	switch p := recover(); p {
	case nil:
	case any(http.ErrAbortHandler):
		panic(p)
	default:
		h.Logger.Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		h.fail(w, r, fmt.Errorf("internal error: %v", p))
	}
}

// get registers a read: GET, with Nomad's blocking semantics over a table.
func (h *handler) get(pattern string, table string, read func(*http.Request, *query) (answer, error)) {
	h.method(pattern, h.blocking(table, read), http.MethodGet)
}

// blocking answers a read, once the index of what it found is above the client's. The
// table's index is taken before the read: a change in between wakes the client again,
// where an index taken after it would have it miss that change.
func (h *handler) blocking(table string, read func(*http.Request, *query) (answer, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := parseQuery(r)
		if err != nil {
			return err
		}
		if h.ACL && open[r.Pattern] {
			q.minIndex = 0 // nobody without a token keeps a place that others need
		}
		ctx, cancel := context.WithTimeout(r.Context(), q.wait)
		defer cancel()
		for {
			seen := h.ControlPlane.Index(table)
			out, err := h.prepare(w, r, func() (any, error) {
				a, err := read(r, q)
				if a.index == 0 {
					a.index = seen
				}
				if q.minIndex != 0 && a.index <= q.minIndex && ctx.Err() == nil {
					return nil, errUnchanged
				}
				w.Header().Set("X-Nomad-Index", strconv.FormatUint(a.index, 10))
				if a.next != "" {
					w.Header().Set("X-Nomad-NextToken", a.next)
				}
				stamp(a.body, a.index)
				return a.body, err
			})
			if err == nil {
				return h.send(w, out)
			}
			if !errors.Is(err, errUnchanged) {
				return err
			}
			h.ControlPlane.Wait(ctx, table, seen)
		}
	}
}

// errUnchanged is of a read that has nothing new to answer with.
var errUnchanged = errors.New("unchanged")

// prepare reads and encodes an answer. There are few at a time, but for those that the node is
// asked for: it may have them wait for a driver.
func (h *handler) prepare(w http.ResponseWriter, r *http.Request, read func() (any, error)) (*encoded, error) {
	if callerOf(r).elsewhere || !strings.HasPrefix(r.URL.Path, "/v1/client/") {
		done, err := h.Bounds.Prepare(r.Context())
		if err != nil {
			return nil, err
		}
		defer done()
	}
	body, err := read()
	if err != nil {
		return nil, err
	}
	return encode(r, body)
}

// answer is what a read found.
type answer struct {
	body  any
	index uint64 // of the object or, when 0, of its table
	next  string // the next page's token
}

// put registers a write: PUT or POST.
func (h *handler) put(pattern string, write func(*http.Request) (any, error)) {
	h.method(pattern, h.writing(write), http.MethodPut, http.MethodPost)
}

func (h *handler) writing(write func(*http.Request) (any, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := write(r)
		if err != nil {
			return err
		}
		if index := toldIndex(body); index > 0 {
			w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
		}
		return h.reply(w, r, body)
	}
}

// method registers a handler for some methods of a path.
func (h *handler) method(pattern string, serve func(http.ResponseWriter, *http.Request) error, methods ...string) {
	for _, m := range methods {
		h.routes = append(h.routes, m+" "+pattern)
		h.mux.HandleFunc(m+" "+pattern, func(w http.ResponseWriter, r *http.Request) {
			defer h.recovered(w, r)
			w.Header().Set("X-Nomad-KnownLeader", "true")
			w.Header().Set("X-Nomad-LastContact", "0")
			elsewhere := callerOf(r).elsewhere
			err := h.checkParameters(m, pattern, r)
			if !elsewhere {
				err = cmp.Or(h.allow(m, pattern, r), err)
			}
			switch {
			case err != nil:
			case elsewhere:
				err = h.askServers(m, pattern, w, r)
			default:
				made, end := h.traced(m+" "+pattern, r)
				err = serve(w, made)
				end()
			}
			if err != nil {
				h.fail(w, r, err)
			}
		})
	}
}

// fail answers with a status and one line of text, as Nomad does.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if ended := r.Context().Err(); ended != nil && errors.Is(err, ended) {
		return
	}
	status := statusOf(err)
	if refused := (*access.Refusal)(nil); errors.As(err, &refused) { // by the policy or a bound
		h.Bounds.Count(refused.Reason)
		if refused.Status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		err = &statusError{refused.Status, refused.Text}
	}
	var se *statusError // an answer that was meant
	if errors.As(err, &se) {
		status = se.status
	}
	if status >= http.StatusInternalServerError && se == nil {
		h.Logger.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, err.Error())
}

func (h *handler) reply(w http.ResponseWriter, r *http.Request, body any) error {
	noteEvaluation(r, body)
	out, err := encode(r, body)
	if err != nil {
		return err
	}
	return h.send(w, out)
}

// encode renders an answer as JSON, as its client takes it.
func encode(r *http.Request, body any) (*encoded, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	if index := toldIndex(body); index > 0 {
		b = withIndex(b, index)
	}
	if _, pretty := r.URL.Query()["pretty"]; pretty {
		var indented bytes.Buffer
		if err := json.Indent(&indented, b, "", "    "); err != nil {
			return nil, fmt.Errorf("indenting the answer: %w", err)
		}
		b = indented.Bytes()
	}
	return pack(r, b)
}

// send sends a whole answer, which counts until its client has read it.
func (h *handler) send(w http.ResponseWriter, out *encoded) error {
	sent, err := h.Bounds.Hold(len(out.bytes))
	if err != nil {
		return err
	}
	defer sent()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Add("Vary", "Accept-Encoding")
	if out.packed {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(out.bytes)))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(replyTimeout)) // errors: the client may take its time
	if out.status != 0 {
		w.WriteHeader(out.status)
	}
	_, _ = w.Write(out.bytes) // errors: the client is gone
	return nil
}

// decode reads a JSON body. Unknown fields are ignored: newer clients add some.
func decode(r *http.Request, into any) error {
	b, err := readBody(r)
	if err != nil {
		return err
	}
	return unmarshal(b, into)
}

// decodeWithin is decode of a body of so many bytes at most, below maxBody: of a request that takes
// more memory than its body has bytes, or that nobody has to be known for.
func decodeWithin(r *http.Request, bytes int64, into any) error {
	whole := r.Body
	defer func() { r.Body = whole }() // by which its place is known
	r.Body = http.MaxBytesReader(nil, whole, bytes)
	return decode(r, into)
}

// readBody reads a request's body whole, up to maxBody.
func readBody(r *http.Request) ([]byte, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, &statusError{http.StatusUnsupportedMediaType, fmt.Sprintf("request body: the encoding %q is not supported: send plain JSON", e)}
	}
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, &statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit)}
		}
		return nil, err
	}
	return b, nil
}

// unmarshal decodes a body; one that is empty leaves everything as it is.
func unmarshal(b []byte, into any) error {
	if len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return badRequest("request body: %v", err)
	}
	return nil
}
