package config

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
)

// Server is what the control plane keeps of what has ended, with Nomad's names.
type Server struct {
	// JobGCInterval is how often it is looked at.
	JobGCInterval time.Duration `key:"job_gc_interval"`
	// The thresholds are how long what has ended is kept, from when it changed last.
	JobGCThreshold        time.Duration `key:"job_gc_threshold"`
	EvalGCThreshold       time.Duration `key:"eval_gc_threshold"`
	BatchEvalGCThreshold  time.Duration `key:"batch_eval_gc_threshold"`
	DeploymentGCThreshold time.Duration `key:"deployment_gc_threshold"`
	NodeGCThreshold       time.Duration `key:"node_gc_threshold"`
	// GCMaxSize is how many MiB of the control plane's file may be in use before the oldest
	// of what has ended goes earlier.
	GCMaxSize int `key:"gc_max_size"`
}

func defaultServer() Server {
	l := standalone.DefaultLimits()
	return Server{
		JobGCInterval: l.Interval, JobGCThreshold: l.Jobs, EvalGCThreshold: l.Evaluations, BatchEvalGCThreshold: l.BatchEvaluations,
		DeploymentGCThreshold: l.Deployments, NodeGCThreshold: l.Nodes, GCMaxSize: int(l.Size >> 20),
	}
}

// Limits are the same as the control plane takes them.
func (s Server) Limits() standalone.Limits {
	return standalone.Limits{
		Interval: s.JobGCInterval, Jobs: s.JobGCThreshold, Evaluations: s.EvalGCThreshold, BatchEvaluations: s.BatchEvalGCThreshold,
		Deployments: s.DeploymentGCThreshold, Nodes: s.NodeGCThreshold, Size: int64(s.GCMaxSize) << 20,
	}
}

type serverBlock struct {
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
	return errs
}
