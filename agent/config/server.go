package config

import (
	"fmt"
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
}

// defaultServer is Nomad's, but for the size.
func defaultServer() Server {
	return Server{
		EventBufferSize: 100,
		JobGCInterval:   5 * time.Minute, JobGCThreshold: 4 * time.Hour, EvalGCThreshold: time.Hour, BatchEvalGCThreshold: 24 * time.Hour,
		DeploymentGCThreshold: time.Hour, NodeGCThreshold: 24 * time.Hour, GCMaxSize: 128,
	}
}

// maxEventBuffer bounds EventBufferSize: a batch may be megabytes.
const maxEventBuffer = 100_000

type serverBlock struct {
	EventBufferSize       *int           `hcl:"event_buffer_size,optional"`
	JobGCInterval         *hcl.Attribute `hcl:"job_gc_interval,optional"`
	JobGCThreshold        *hcl.Attribute `hcl:"job_gc_threshold,optional"`
	EvalGCThreshold       *hcl.Attribute `hcl:"eval_gc_threshold,optional"`
	BatchEvalGCThreshold  *hcl.Attribute `hcl:"batch_eval_gc_threshold,optional"`
	DeploymentGCThreshold *hcl.Attribute `hcl:"deployment_gc_threshold,optional"`
	NodeGCThreshold       *hcl.Attribute `hcl:"node_gc_threshold,optional"`
	GCMaxSize             *int           `hcl:"gc_max_size,optional"`
}

func (l *loader) server(b *serverBlock) {
	s := &l.config.Server
	set(&s.EventBufferSize, b.EventBufferSize)
	set(&s.JobGCInterval, l.duration(b.JobGCInterval))
	set(&s.JobGCThreshold, l.duration(b.JobGCThreshold))
	set(&s.EvalGCThreshold, l.duration(b.EvalGCThreshold))
	set(&s.BatchEvalGCThreshold, l.duration(b.BatchEvalGCThreshold))
	set(&s.DeploymentGCThreshold, l.duration(b.DeploymentGCThreshold))
	set(&s.NodeGCThreshold, l.duration(b.NodeGCThreshold))
	set(&s.GCMaxSize, b.GCMaxSize)
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
	return errs
}
