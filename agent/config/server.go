package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Server is how the control plane works, with Nomad's names.
type Server struct {
	// EventBufferSize is how many batches of events are kept for those who come later, or
	// read slowly.
	EventBufferSize int `key:"event_buffer_size"`
	// JobGCInterval is how often what has ended is looked at.
	JobGCInterval time.Duration `key:"job_gc_interval"`
	// The thresholds are how long it is kept, from when it changed last.
	JobGCThreshold        time.Duration `key:"job_gc_threshold"`
	EvalGCThreshold       time.Duration `key:"eval_gc_threshold"`
	BatchEvalGCThreshold  time.Duration `key:"batch_eval_gc_threshold"`
	DeploymentGCThreshold time.Duration `key:"deployment_gc_threshold"`
	NodeGCThreshold       time.Duration `key:"node_gc_threshold"`
	// GCMaxSize is how many MiB of the control plane's file may be in use before the oldest
	// of what has ended goes earlier.
	GCMaxSize int `key:"gc_max_size"`
	// Scheduler is how the scheduler decides until somebody sets that by the API.
	Scheduler Scheduler `key:"default_scheduler_config"`
	// OIDCIssuer is the URL under which others find what they verify the tokens of tasks with;
	// empty: the tokens name nobody.
	OIDCIssuer string `key:"oidc_issuer"`
	// Enabled says that the agent schedules for its own machine, or that it does not; nil: it
	// does unless it has servers to join.
	Enabled *bool `key:"enabled"`
}

// Scheduler is how the scheduler decides, with Nomad's names.
type Scheduler struct {
	Algorithm        string     `key:"scheduler_algorithm"` // binpack or spread
	Oversubscription bool       `key:"memory_oversubscription_enabled"`
	RejectJobs       bool       `key:"reject_job_registration"`
	PauseEvaluations bool       `key:"pause_eval_broker"`
	Preemption       Preemption `key:"preemption_config"`
}

// Preemption says jobs of which types may preempt others.
type Preemption struct {
	System   bool `key:"system_scheduler_enabled"`
	Sysbatch bool `key:"sysbatch_scheduler_enabled"`
	Batch    bool `key:"batch_scheduler_enabled"`
	Service  bool `key:"service_scheduler_enabled"`
}

// defaultServer is Nomad's, but for the size.
func defaultServer() Server {
	return Server{
		EventBufferSize: 100,
		JobGCInterval:   5 * time.Minute, JobGCThreshold: 4 * time.Hour, EvalGCThreshold: time.Hour, BatchEvalGCThreshold: 24 * time.Hour,
		DeploymentGCThreshold: time.Hour, NodeGCThreshold: 24 * time.Hour, GCMaxSize: 128,
		Scheduler: Scheduler{Algorithm: "binpack", Preemption: Preemption{System: true}},
	}
}

// maxEventBuffer bounds EventBufferSize: a batch may be megabytes.
const maxEventBuffer = 100_000

type serverBlock struct {
	Enabled               *bool          `hcl:"enabled,optional"`
	EventBufferSize       *int           `hcl:"event_buffer_size,optional"`
	JobGCInterval         *hcl.Attribute `hcl:"job_gc_interval,optional"`
	JobGCThreshold        *hcl.Attribute `hcl:"job_gc_threshold,optional"`
	EvalGCThreshold       *hcl.Attribute `hcl:"eval_gc_threshold,optional"`
	BatchEvalGCThreshold  *hcl.Attribute `hcl:"batch_eval_gc_threshold,optional"`
	DeploymentGCThreshold *hcl.Attribute `hcl:"deployment_gc_threshold,optional"`
	NodeGCThreshold       *hcl.Attribute `hcl:"node_gc_threshold,optional"`
	GCMaxSize             *int           `hcl:"gc_max_size,optional"`
	OIDCIssuer            *string        `hcl:"oidc_issuer,optional"`

	Scheduler *schedulerBlock `hcl:"default_scheduler_config,block"`
}

type schedulerBlock struct {
	Algorithm        *string          `hcl:"scheduler_algorithm,optional"`
	Oversubscription *bool            `hcl:"memory_oversubscription_enabled,optional"`
	RejectJobs       *bool            `hcl:"reject_job_registration,optional"`
	PauseEvaluations *bool            `hcl:"pause_eval_broker,optional"`
	Preemption       *preemptionBlock `hcl:"preemption_config,block"`
}

type preemptionBlock struct {
	System   *bool `hcl:"system_scheduler_enabled,optional"`
	Sysbatch *bool `hcl:"sysbatch_scheduler_enabled,optional"`
	Batch    *bool `hcl:"batch_scheduler_enabled,optional"`
	Service  *bool `hcl:"service_scheduler_enabled,optional"`
}

func (l *loader) server(b *serverBlock) {
	s := &l.config.Server
	if b.Enabled != nil {
		s.Enabled = b.Enabled
	}
	set(&s.EventBufferSize, b.EventBufferSize)
	set(&s.JobGCInterval, l.duration(b.JobGCInterval))
	set(&s.JobGCThreshold, l.duration(b.JobGCThreshold))
	set(&s.EvalGCThreshold, l.duration(b.EvalGCThreshold))
	set(&s.BatchEvalGCThreshold, l.duration(b.BatchEvalGCThreshold))
	set(&s.DeploymentGCThreshold, l.duration(b.DeploymentGCThreshold))
	set(&s.NodeGCThreshold, l.duration(b.NodeGCThreshold))
	set(&s.GCMaxSize, b.GCMaxSize)
	set(&s.OIDCIssuer, b.OIDCIssuer)
	if b.Scheduler != nil {
		s.Scheduler.apply(b.Scheduler)
	}
}

func (s *Scheduler) apply(b *schedulerBlock) {
	set(&s.Algorithm, b.Algorithm)
	set(&s.Oversubscription, b.Oversubscription)
	set(&s.RejectJobs, b.RejectJobs)
	set(&s.PauseEvaluations, b.PauseEvaluations)
	if p := b.Preemption; p != nil {
		set(&s.Preemption.System, p.System)
		set(&s.Preemption.Sysbatch, p.Sysbatch)
		set(&s.Preemption.Batch, p.Batch)
		set(&s.Preemption.Service, p.Service)
	}
}

// asksItself leaves out servers that are the agent itself, as the configuration of Nomad's packages
// names them.
func (c *Config) asksItself() {
	itself := func(server string) bool {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			host = server
		}
		return host == "localhost" || net.ParseIP(host).IsLoopback()
	}
	if on := c.Server.Enabled; on != nil && *on && len(c.Client.Servers) > 0 && !slices.ContainsFunc(c.Client.Servers, func(s string) bool { return !itself(s) }) {
		c.Client.Servers = nil
		c.Warnings = append(c.Warnings, "client.servers has no effect: with server { enabled = true } the agent is its own server")
	}
}

// validate returns every fault of the block.
func (s Server) validate() (errs []error) {
	for _, d := range []struct {
		key string
		d   time.Duration
	}{
		{"job_gc_interval", s.JobGCInterval}, {"job_gc_threshold", s.JobGCThreshold}, {"eval_gc_threshold", s.EvalGCThreshold},
		{"batch_eval_gc_threshold", s.BatchEvalGCThreshold}, {"deployment_gc_threshold", s.DeploymentGCThreshold}, {"node_gc_threshold", s.NodeGCThreshold},
	} {
		if d.d <= 0 {
			errs = append(errs, fmt.Errorf("server.%s: %s is not positive", d.key, d.d))
		}
	}
	if s.GCMaxSize < 1 {
		errs = append(errs, fmt.Errorf("server.gc_max_size: %d is less than 1", s.GCMaxSize))
	}
	if s.EventBufferSize < 1 || s.EventBufferSize > maxEventBuffer {
		errs = append(errs, fmt.Errorf("server.event_buffer_size: %d is not between 1 and %d", s.EventBufferSize, maxEventBuffer))
	}
	if u, err := url.Parse(s.OIDCIssuer); s.OIDCIssuer != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		errs = append(errs, fmt.Errorf("server.oidc_issuer: %q is no URL such as https://nomad.example.com", s.OIDCIssuer))
	}
	if a := s.Scheduler.Algorithm; a != "binpack" && a != "spread" {
		errs = append(errs, fmt.Errorf("server.default_scheduler_config.scheduler_algorithm: %q is neither binpack nor spread", a))
	}
	return errs
}
