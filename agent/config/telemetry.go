package config

import "fmt"

// Telemetry is what is shown of metrics, with Nomad's names.
type Telemetry struct {
	// PublishAllocations and PublishNode show what tasks, and what the machine uses.
	PublishAllocations bool `key:"publish_allocation_metrics"`
	PublishNode        bool `key:"publish_node_metrics"`
	// DisableHostname leaves out the label "host" of Nomad's metrics. UseNodeName has it be the
	// node's name, and not the machine's.
	DisableHostname bool `key:"disable_hostname"`
	UseNodeName     bool `key:"use_node_name"`
	// PrefixFilter shows what begins with "+PREFIX" and hides what begins with "-PREFIX", and
	// FilterDefault shows what no rule is about.
	PrefixFilter  []string `key:"prefix_filter"`
	FilterDefault bool     `key:"filter_default"`
	// HideDispatched leaves out the summaries of jobs that were dispatched.
	HideDispatched bool `key:"disable_dispatched_job_summary_metrics"`
}

// maxPrefixes bounds PrefixFilter: each rule is looked at for each metric.
const maxPrefixes = 100

// defaultTelemetry shows all there is, as long as nothing else is said.
func defaultTelemetry() Telemetry {
	return Telemetry{PublishAllocations: true, PublishNode: true, FilterDefault: true}
}

type telemetryBlock struct {
	PublishAllocations *bool     `hcl:"publish_allocation_metrics,optional"`
	PublishNode        *bool     `hcl:"publish_node_metrics,optional"`
	DisableHostname    *bool     `hcl:"disable_hostname,optional"`
	UseNodeName        *bool     `hcl:"use_node_name,optional"`
	PrefixFilter       *[]string `hcl:"prefix_filter,optional"`
	FilterDefault      *bool     `hcl:"filter_default,optional"`
	HideDispatched     *bool     `hcl:"disable_dispatched_job_summary_metrics,optional"`
}

func (l *loader) telemetry(b *telemetryBlock) {
	t := &l.config.Telemetry
	set(&t.PublishAllocations, b.PublishAllocations)
	set(&t.PublishNode, b.PublishNode)
	set(&t.DisableHostname, b.DisableHostname)
	set(&t.UseNodeName, b.UseNodeName)
	set(&t.PrefixFilter, b.PrefixFilter)
	set(&t.FilterDefault, b.FilterDefault)
	set(&t.HideDispatched, b.HideDispatched)
}

// validate returns every fault of the block.
func (t Telemetry) validate() (errs []error) {
	for _, rule := range t.PrefixFilter {
		if rule == "" || rule[0] != '+' && rule[0] != '-' {
			errs = append(errs, fmt.Errorf("telemetry.prefix_filter: %q begins neither with + nor with -", rule))
		}
	}
	if len(t.PrefixFilter) > maxPrefixes {
		errs = append(errs, fmt.Errorf("telemetry.prefix_filter: %d rules are more than %d", len(t.PrefixFilter), maxPrefixes))
	}
	return errs
}
