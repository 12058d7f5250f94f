package standalone

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/jobfields"
	"github.com/wasmnode/wasmnode/structs"
)

// ValidationError is every fault of a job, each naming the field that has it.
type ValidationError struct {
	Faults []string
}

// Error returns the only fault, or all of them, a line each.
func (e *ValidationError) Error() string {
	if len(e.Faults) == 1 {
		return e.Faults[0]
	}
	return fmt.Sprintf("%d errors occurred:\n\t* %s", len(e.Faults), strings.Join(e.Faults, "\n\t* "))
}

// Unwrap makes it an errdefs.InvalidArgument.
func (e *ValidationError) Unwrap() error {
	return invalid("%s", e.Error())
}

// ValidateJob returns every fault of a job, and its warnings. It canonicalises
// the job.
func (cp *ControlPlane) ValidateJob(job *nomad.Job) (faults, warnings []string) {
	faults, warnings = validateJob(job, cp.setting())
	if job != nil && job.NodePool != nil && cp.NodePool(*job.NodePool) == nil {
		faults = append(faults, noPool(job))
	}
	return faults, warnings
}

// ValidateJob is what [ControlPlane.ValidateJob] says where no node, no pool and no
// configuration of the scheduler is known.
func ValidateJob(job *nomad.Job) (faults, warnings []string) {
	return validateJob(job, setting{groupFaults: func(*nomad.TaskGroup) []string { return nil }})
}

func validateJob(job *nomad.Job, s setting) (faults, warnings []string) {
	warnings, err := s.prepareSubmitted(job)
	var v *ValidationError
	if errors.As(err, &v) {
		faults = v.Faults
	}
	return faults, warnings
}

// setting is what a job's faults depend on beside the job.
type setting struct {
	groupFaults   func(*nomad.TaskGroup) []string // what the nodes refuse
	oversubscribe bool                            // tasks may have more memory than they are promised
	namespace     func(string) *nomad.Namespace   // finds one; nil: it is not known which there are
}

func (cp *ControlPlane) setting() setting {
	return setting{cp.faults, cp.SchedulerConfiguration().MemoryOversubscriptionEnabled, cp.Namespace}
}

// prepareSubmitted is prepare of what a client sends. Nobody makes a job the child of another by
// saying so: a child's tasks read their parent's variables.
func (s setting) prepareSubmitted(job *nomad.Job) (warnings []string, err error) {
	if job != nil {
		job.ParentID, job.Dispatched = nil, false
	}
	return s.prepare(job)
}

// prepare fills in what the job leaves open and finds all its faults.
func (s setting) prepare(job *nomad.Job) (warnings []string, err error) {
	if job == nil {
		return nil, &ValidationError{Faults: []string{"job: it is missing"}}
	}
	if err := possible(job); err != nil {
		return nil, err
	}
	setProviders(job)
	if structs.Deref(job.Priority) == 0 {
		job.Priority = nil // zero is none, as in Nomad
	}
	job.Canonicalize()
	setIdentities(job)
	if p := job.ParameterizedJob; p != nil && p.Payload == "" {
		p.Payload = payloadOptional
	}
	if len(job.Datacenters) == 0 {
		job.Datacenters = []string{"*"}
	}
	if *job.NodePool == "" {
		job.NodePool = new("default")
	}
	setScalings(job)
	return s.check(job)
}

// possible refuses what cannot be looked at any closer.
func possible(job *nomad.Job) error {
	v := &validation{}
	nulls(job, func(path string) { v.fault("%s: it is null", path) })
	if !v.faults.any() {
		v.bounds(job)
	}
	if v.faults.any() {
		return &ValidationError{Faults: v.faults.list()}
	}
	return nil
}

// check finds all faults of a job that leaves nothing open.
func (s setting) check(job *nomad.Job) (warnings []string, err error) {
	v := &validation{setting: s}
	v.job(job)
	refused, warned := jobfields.Check(job)
	for _, text := range refused {
		v.faults.add(text)
	}
	for _, text := range warned {
		v.warnings.add(text)
	}
	if v.faults.any() {
		return nil, &ValidationError{Faults: v.faults.list()}
	}
	v.advise(job)
	return v.warnings.list(), nil
}

// setProviders gives services without a provider the one that is supported, where
// Nomad means Consul.
func setProviders(job *nomad.Job) {
	for _, g := range job.TaskGroups {
		services := slices.Clone(g.Services)
		for _, t := range g.Tasks {
			services = append(services, t.Services...)
		}
		for _, s := range services {
			if s.Provider == "" {
				s.Provider = "nomad"
			}
		}
	}
}

// validation gathers faults. at is where it is, such as `group "web": task "app"`.
type validation struct {
	setting
	at       []string
	faults   remarks
	warnings remarks
}

func (v *validation) fault(format string, args ...any) {
	v.faults.say(v.at, format, args...)
}

func (v *validation) warn(format string, args ...any) {
	v.warnings.say(v.at, format, args...)
}

// in validates something inside, with its name in front of its faults.
func (v *validation) in(name string, validate func()) {
	v.at = append(v.at, short(name, maxRemarkPlace))
	validate()
	v.at = v.at[:len(v.at)-1]
}

const (
	maxPriority = 100
	// maxNameLen bounds the names that become file names, with room for suffixes.
	maxNameLen = 200
	minMemory  = 10 // MB, as in Nomad
	// maxDescription is how long the text on a job's page may be, in bytes.
	maxDescription = 1000
	// maxCount bounds the allocations of a job, far above what one machine runs:
	// each costs the scheduler time and memory, placed or not.
	maxCount = 50_000
)

func (v *validation) job(j *nomad.Job) {
	switch {
	case *j.ID == "":
		v.fault("Missing job ID")
	case strings.ContainsAny(*j.ID, " \x00"):
		v.fault("Job ID %q contains a space or a null character", *j.ID)
	}
	if *j.Name == "" {
		v.fault("Missing job name")
	}
	v.printable("Job ID", *j.ID)
	if *j.Name != *j.ID {
		v.printable("Job name", *j.Name)
	}
	if v.namespace != nil {
		if text := namespaceFault(j, v.namespace(*j.Namespace)); text != "" {
			v.fault("%s", text)
		}
	}
	if !slices.Contains([]string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysbatch}, *j.Type) {
		v.fault("Invalid job type: %q (type is one of service, batch, system, sysbatch)", *j.Type)
	}
	if *j.Priority < 1 || *j.Priority > maxPriority {
		v.fault("Job priority must be between [1, %d]: it is %d", maxPriority, *j.Priority)
	}
	if ui := j.UI; ui != nil && len(ui.Description) > maxDescription {
		v.fault("ui: description: UI description must be under %d characters, currently %d", maxDescription, len(ui.Description))
	}
	if slices.Contains(j.Datacenters, "") {
		v.fault("datacenters: an empty name; use \"*\" for all")
	}
	v.constraints(j.Constraints, true)
	v.ranking(j, j.Affinities, j.Spreads)
	v.children(j)
	if len(j.TaskGroups) == 0 {
		v.fault("Missing job task groups")
	}
	v.total(j)
	names := map[string]int{}
	for i, g := range j.TaskGroups {
		if *g.Name == "" {
			v.fault("Job task group %d missing name", i+1)
		} else if first, again := names[*g.Name]; again {
			v.fault("Job task group %d redefines '%s' from group %d", i+1, *g.Name, first)
		} else {
			names[*g.Name] = i + 1
		}
		v.printable("Job task group name", *g.Name)
		v.in(fmt.Sprintf("group %q", *g.Name), func() { v.group(j, g) })
	}
}

// total bounds the sum of the counts, which may be larger than an integer.
func (v *validation) total(j *nomad.Job) {
	total := 0
	for _, g := range j.TaskGroups {
		if *g.Count > maxCount-total {
			v.fault("count: a job has at most %d allocations: its groups ask for more", maxCount)
			return
		}
		total += max(0, *g.Count)
	}
}

func (v *validation) group(j *nomad.Job, g *nomad.TaskGroup) {
	switch {
	case *g.Count < 0:
		v.fault("count: Task group count can't be negative: it is %d", *g.Count)
	case *g.Count > 1 && *j.Type == nomad.JobTypeSystem:
		v.fault("count: Job task group %s has count %d. Count cannot exceed 1 with %s scheduler", *g.Name, *g.Count, *j.Type)
	}
	v.services(g.Services, "")
	v.constraints(g.Constraints, true)
	v.ranking(j, g.Affinities, g.Spreads)
	v.restart(g.RestartPolicy)
	v.reschedule(j, g.ReschedulePolicy)
	v.disk(g)
	v.volumes(j, g)
	v.ports(g)
	v.groupTimes(j, g)
	v.scaling(g)
	v.update(j, g.Update)
	if len(g.Tasks) == 0 {
		v.fault("Missing tasks for group")
	}
	names := map[string]int{}
	leaders := 0
	for i, t := range g.Tasks {
		if t.Name == "" {
			v.fault("Task %d missing name", i+1)
		} else if first, again := names[t.Name]; again {
			v.fault("Task %d redefines '%s' from task %d", i+1, t.Name, first)
		} else {
			names[t.Name] = i + 1
		}
		if t.Leader {
			leaders++
		}
		v.in(fmt.Sprintf("task %q", t.Name), func() {
			v.task(t)
			v.taskTimes(g, t)
			v.taskFiles(t)
			v.volumeMounts(g, t)
			v.logs(g, t)
			v.ranking(j, t.Affinities, nil)
		})
	}
	if leaders > 1 {
		v.fault("Only one task may be marked as leader")
	}
	for _, fault := range v.groupFaults(g) {
		v.fault("%s", fault)
	}
}

func (v *validation) task(t *nomad.Task) {
	switch {
	case t.Name == "." || t.Name == ".." || strings.ContainsAny(t.Name, "/\\\x00"):
		v.fault("name: %q cannot be a directory's name", t.Name)
	}
	v.printable("name", t.Name)
	v.services(t.Services, t.Name)
	if t.Driver == "" {
		v.fault("driver: Missing task driver")
	}
	v.constraints(t.Constraints, false)
	v.actions(t.Actions)
	v.resources(t.Resources)
	v.cores(t)
	v.lifecycle(t.Lifecycle)
	v.identities(t)
}

func (v *validation) resources(r *nomad.Resources) {
	if r == nil {
		v.fault("resources: Missing task resources")
		return
	}
	if structs.Deref(r.Cores) < 0 {
		v.fault("resources: cores: it can't be negative: it is %d", *r.Cores)
	}
	if structs.Deref(r.Cores) == 0 && structs.Deref(r.CPU) < 1 {
		v.fault("resources: cpu: minimum CPU value is 1; got %d", structs.Deref(r.CPU))
	}
	if structs.Deref(r.Cores) > 0 && structs.Deref(r.CPU) > 0 {
		v.fault("resources: Task can only ask for 'cpu' or 'cores' resource, not both.")
	}
	if structs.Deref(r.MemoryMB) < minMemory {
		v.fault("resources: memory: minimum MemoryMB value is %d; got %d", minMemory, structs.Deref(r.MemoryMB))
	}
	if mb := structs.Deref(r.SecretsMB); mb < 0 {
		v.fault("resources: secrets: SecretsMB value (%d) cannot be negative", mb)
	} else if mb > structs.Deref(r.MemoryMB) {
		v.fault("resources: secrets: SecretsMB value (%d) cannot be larger than MemoryMB value (%d)", mb, structs.Deref(r.MemoryMB))
	}
	if most := structs.Deref(r.MemoryMaxMB); most != 0 && most != structs.MemoryUnlimited && most < structs.Deref(r.MemoryMB) {
		v.fault("resources: memory_max: MemoryMaxMB value (%d) should be larger than MemoryMB value (%d)", most, structs.Deref(r.MemoryMB))
	}
	v.devices(r.Devices)
}

func (v *validation) lifecycle(l *nomad.TaskLifecycle) {
	if l == nil {
		return
	}
	switch l.Hook {
	case nomad.TaskLifecycleHookPrestart, nomad.TaskLifecycleHookPoststart, nomad.TaskLifecycleHookPoststop:
	case "":
		v.fault("lifecycle: hook: no lifecycle hook provided")
	default:
		v.fault("lifecycle: hook: invalid hook: %v", l.Hook)
	}
}

const maxPort = 65535

func (v *validation) ports(g *nomad.TaskGroup) {
	labels, static := map[string]bool{}, map[int]string{}
	for _, n := range g.Networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if p.Label == "" {
				v.fault("network: a port has no label")
			} else if labels[p.Label] {
				v.fault("network: Port label %s already in use", p.Label)
			}
			labels[p.Label] = true
			if p.To < -1 || p.To > maxPort {
				v.fault("network: port %q: to: %d is not a port", p.Label, p.To)
			}
		}
		for _, p := range n.ReservedPorts {
			if p.Value < 1 || p.Value > maxPort {
				v.fault("network: port %q: static: %d is not a port", p.Label, p.Value)
			} else if other, again := static[p.Value]; again && !p.IgnoreCollision {
				v.fault("network: Static port %d already reserved by %s", p.Value, other)
			}
			if p.IgnoreCollision && n.Mode != "" && n.Mode != "host" {
				v.fault("network: port %q: ignore_collision is for mode \"host\": in mode %q the port would be taken from whoever has it", p.Label, n.Mode)
			}
			static[p.Value] = p.Label
		}
	}
	if len(static) > 0 && *g.Count > 1 {
		v.warn("static ports on one machine: only one of %d allocations can be placed", *g.Count)
	}
}

func (v *validation) constraints(list []*nomad.Constraint, hosts bool) {
	for i, c := range list {
		v.in(fmt.Sprintf("constraint %d", i+1), func() { v.constraint(c, hosts) })
	}
}

func (v *validation) constraint(c *nomad.Constraint, hosts bool) {
	switch c.Operand {
	case "":
		v.fault("Missing constraint operand")
	case nomad.ConstraintDistinctHosts:
		if !hosts {
			v.fault("distinct_hosts is for jobs and groups")
		}
		return
	case nomad.ConstraintDistinctProperty:
		if !hosts {
			v.fault("distinct_property is for jobs and groups")
		}
		if n, err := strconv.Atoi(c.RTarget); c.RTarget != "" && (err != nil || n < 1) {
			v.fault("distinct_property: value: %q is not a count of at least 1", c.RTarget)
		}
	case nomad.ConstraintRegex:
		if _, err := regexp.Compile(c.RTarget); err != nil {
			v.fault("Regular expression failed to compile: %v", err)
		}
	case nomad.ConstraintVersion, nomad.ConstraintSemver:
		if _, err := version.NewConstraint(c.RTarget); err != nil {
			v.fault("%s constraint is invalid: %v", c.Operand, err)
		}
	case nomad.ConstraintSetContains, nomad.ConstraintSetContainsAll, nomad.ConstraintSetContainsAny:
		if c.RTarget == "" {
			v.fault("Set contains constraint requires an RTarget")
		}
	case "=", "==", "is", "!=", "not", "<", "<=", ">", ">=":
		if c.RTarget == "" {
			v.fault("Operator %q requires an RTarget", c.Operand)
		}
	case nomad.ConstraintAttributeIsSet, nomad.ConstraintAttributeIsNotSet:
		if c.RTarget != "" {
			v.fault("Operator %q does not support an RTarget", c.Operand)
		}
	default:
		v.fault("Unknown constraint type %q", c.Operand)
	}
	if c.LTarget == "" {
		v.fault("No LTarget provided but is required by constraint")
	}
}
