package clientrpc

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

type monitorArgs struct {
	NodeID, LogLevel                       string
	LogJSON, LogIncludeLocation, PlainText bool
}

// monitor sends the agent's log from now on.
func (s *server) monitor(ctx context.Context, args *monitorArgs, st *conn) error {
	if err := s.checkNode(args.NodeID); err != nil {
		return err
	}
	if s.Logs == nil {
		return errdefs.New(errdefs.Unimplemented, "this agent's log cannot be followed")
	}
	opts, err := clientapi.MonitorOptions(args.LogLevel, args.LogJSON, args.LogIncludeLocation)
	if err != nil {
		return err
	}
	ctx, cancel := st.Gone(ctx)
	defer cancel()
	clientapi.Monitor(ctx, s.Logs, opts, clientapi.NewFrames(args.PlainText, "", st.Send))
	return nil
}

type exportArgs struct {
	NodeID, ServiceName, LogsSince string
	Follow, OnDisk, PlainText      bool
}

// monitorExport sends what the agent's service has logged.
func (s *server) monitorExport(ctx context.Context, args *exportArgs, st *conn) error {
	if err := s.checkNode(args.NodeID); err != nil {
		return err
	}
	query, err := clientapi.ExportQuery{Service: args.ServiceName, Since: args.LogsSince, OnDisk: args.OnDisk, Follow: args.Follow}.Journal()
	if errors.Is(err, clientapi.ErrNotOurUnit) || errors.Is(err, clientapi.ErrNoUnit) {
		return invalid("%v", err)
	}
	if err != nil {
		return err
	}
	ctx, cancel := st.Gone(ctx)
	defer cancel()
	return unlessGone(ctx, s.journals.Export(ctx, query, clientapi.NewFrames(args.PlainText, "", st.Send)))
}

// The bounds of a profile.
const (
	maxProfileTime  = 10 * time.Minute
	maxProfileBytes = 64 << 20
)

type (
	profileArgs struct {
		NodeID, ReqType, Profile string
		Seconds, Debug, GC       int
	}
	profileReply struct {
		AgentID     string
		Payload     []byte
		HTTPHeaders map[string]string
	}
)

// profiles are the names under which package clientapi has what servers ask for by type.
var profiles = map[string]string{"cmdline": "cmdline", "cpu": "profile", "trace": "trace"}

// profile shows what the agent itself is doing.
func (s *server) profile(ctx context.Context, args *profileArgs) (any, error) {
	if err := s.checkNode(args.NodeID); err != nil {
		return nil, err
	}
	if !s.Debug {
		return nil, errdefs.New(errdefs.PermissionDenied, "Permission denied: set enable_debug in the agent's configuration")
	}
	name := profiles[args.ReqType]
	if args.ReqType == "lookup" {
		name = args.Profile
	}
	switch {
	case name == "":
		return nil, errdefs.New(errdefs.NotFound, "Pprof profile not found profile: %s", args.ReqType)
	case args.ReqType == "lookup" && slices.Contains(slices.Collect(maps.Values(profiles)), name): // by type alone, within their time
		return nil, errdefs.New(errdefs.NotFound, "Pprof profile not found profile: %s", args.Profile)
	case args.Seconds < 0 || args.Seconds > int(maxProfileTime/time.Second):
		return nil, invalid("a profile of %d seconds: at most %d", args.Seconds, int(maxProfileTime/time.Second))
	}
	query := url.Values{"seconds": {strconv.Itoa(max(1, args.Seconds))}, "debug": {strconv.Itoa(args.Debug)}, "gc": {strconv.Itoa(args.GC)}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	w := &page{header: http.Header{}}
	if err := clientapi.Profile(w, r, name); err != nil {
		return nil, err
	}
	if w.status >= http.StatusBadRequest {
		return nil, errdefs.New(errdefs.Unavailable, "%s", bytes.TrimSpace(w.body.Bytes()))
	}
	reply := profileReply{AgentID: s.NodeID, Payload: w.body.Bytes(), HTTPHeaders: map[string]string{}}
	for header := range w.header {
		reply.HTTPHeaders[header] = w.header.Get(header)
	}
	return reply, nil
}

// page is an answer that is kept, up to maxProfileBytes.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *page) WriteHeader(status int) { p.status = status }

// Write implements [http.ResponseWriter].
func (p *page) Write(b []byte) (int, error) {
	if p.body.Len()+len(b) > maxProfileBytes {
		p.status = http.StatusInsufficientStorage
		p.body.Reset()
		p.body.WriteString("the profile is too large: measure for a shorter time")
		return 0, errors.New("too large")
	}
	return p.body.Write(b)
}
