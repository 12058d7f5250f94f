package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type allocStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*allocStatusCommand) Synopsis() string { return "Show an allocation, its tasks and their events" }

// Help implements [subcommand].
func (*allocStatusCommand) Help() string {
	return `Usage: wasmnode alloc status [options] [ALLOC]

  Lists the allocations, or shows one: its tasks and what happened to them, newest
  first. ALLOC may be the beginning of an ID. With -verbose, why it was placed where it
  is, too.

Options:

  -short   Show of each task no more than what happened last.
  -stats   Show all that is measured of what the tasks use now.` + commonOptions
}

// Run implements [subcommand].
func (c *allocStatusCommand) Run(args []string) int {
	f := c.flags("alloc status")
	stats, short := f.Bool("stats", false, ""), f.Bool("short", false, "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.NArg() == 0 {
		return c.list(f, client)
	}
	alloc, err := findAllocation(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(alloc)
	}
	if *short {
		c.short(alloc)
		return 0
	}
	var usage *nomad.AllocResourceUsage
	if alloc.ClientStatus == "running" {
		if usage, err = client.Allocations().Stats(alloc, nil); err != nil && *stats {
			return c.fail(f, err) // otherwise it is shown without
		}
	}
	c.head(f, client, alloc)
	c.checks(client, alloc)
	for _, name := range slices.Sorted(maps.Keys(alloc.TaskStates)) {
		c.task(f, name, alloc, usage, *stats)
	}
	if *f.verbose {
		c.placement(f, alloc.Metrics)
	}
	return 0
}

func (c *allocStatusCommand) list(f *flags, client *nomad.Client) int {
	allocs, _, err := client.Allocations().List(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(allocs)
	}
	allocationTable(c.meta, f, allocs)
	return 0
}

// short shows an allocation with a line for each of its tasks.
func (c *allocStatusCommand) short(a *nomad.Allocation) {
	c.pairs([][2]string{{"ID", a.ID}, {"Name", a.Name}, {"Created", ago(a.CreateTime)}, {"Modified", ago(a.ModifyTime)}})
	c.ui.Output("\nTasks")
	rows := [][]string{{"Name", "State", "Last Event", "Time", "Lifecycle"}}
	for _, t := range a.GetTaskGroup().Tasks {
		row := []string{t.Name, "pending", "", "", "main"}
		if l := t.Lifecycle; l != nil && !l.Empty() {
			row[4] = l.Hook
			if l.Sidecar {
				row[4] += " sidecar"
			}
		}
		if s := a.TaskStates[t.Name]; s != nil {
			row[1] = s.State
			if n := len(s.Events); n > 0 {
				row[2], row[3] = s.Events[n-1].Type, stamp(s.Events[n-1].Time)
			}
		}
		rows = append(rows, row)
	}
	c.table(rows)
}

// deployed tells of the deployment that an allocation is part of: its ID, whether the allocation
// is healthy, "unset" while nobody knows, and whether it is a canary. Of none it tells nothing.
func deployed(f *flags, a *nomad.Allocation) [][2]string {
	if a.DeploymentID == "" {
		return nil
	}
	health := "unset"
	if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
		health = "unhealthy"
		if *d.Healthy {
			health = "healthy"
		}
	}
	pairs := [][2]string{{"Deployment ID", f.short(a.DeploymentID)}, {"Deployment Health", health}}
	if a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
		pairs = append(pairs, [2]string{"Canary", "true"})
	}
	return pairs
}

func (c *allocStatusCommand) head(f *flags, client *nomad.Client, a *nomad.Allocation) {
	pairs := [][2]string{
		{"ID", a.ID},
		{"Eval ID", f.short(a.EvalID)},
		{"Name", a.Name},
		{"Node ID", f.short(a.NodeID)},
		{"Node Name", a.NodeName},
		{"Job ID", a.JobID},
		{"Job Version", strconv.FormatUint(*a.Job.Version, 10)},
		{"Client Status", a.ClientStatus},
		{"Client Description", a.ClientDescription},
		{"Desired Status", a.DesiredStatus},
		{"Desired Description", a.DesiredDescription},
		{"Created", f.when(a.CreateTime)},
		{"Modified", f.when(a.ModifyTime)},
	}
	pairs = append(pairs, deployed(f, a)...)
	if a.PreviousAllocation != "" {
		pairs = append(pairs, [2]string{"Replaces Alloc", f.short(a.PreviousAllocation)})
	}
	if a.NextAllocation != "" {
		pairs = append(pairs, [2]string{"Replacement Alloc ID", f.short(a.NextAllocation)})
	}
	pairs = append(pairs, rescheduled(client, a)...)
	if len(a.PreemptedAllocations) > 0 {
		var ids []string
		for _, id := range a.PreemptedAllocations {
			ids = append(ids, f.short(id))
		}
		pairs = append(pairs, [2]string{"Preempted Allocs", strings.Join(ids, ", ")})
	}
	if a.PreemptedByAllocation != "" {
		pairs = append(pairs, [2]string{"Preempted By Alloc", f.short(a.PreemptedByAllocation)})
	}
	c.pairs(pairs)
	if shared := a.AllocatedResources.Shared; len(shared.Ports) > 0 {
		c.ui.Output("\nAllocation Addresses:")
		rows := [][]string{{"Label", "Dynamic", "Address"}}
		for _, p := range shared.Ports {
			label, dynamic := "*"+p.Label, "yes"
			if isStatic(shared.Networks, p.Label) {
				label, dynamic = p.Label, "no"
			}
			address := fmt.Sprintf("%s:%d", p.HostIP, p.Value)
			if p.To > 0 {
				address += fmt.Sprintf(" -> %d", p.To)
			}
			rows = append(rows, []string{label, dynamic, address})
		}
		c.table(rows)
	}
}

// isStatic reports whether the job gives a port its number.
func isStatic(networks []*nomad.NetworkResource, label string) bool {
	return slices.ContainsFunc(networks, func(n *nomad.NetworkResource) bool {
		return slices.ContainsFunc(n.ReservedPorts, func(p nomad.Port) bool { return p.Label == label })
	})
}

// checks lists the checks of what runs; where they cannot be had it is shown without.
func (c *allocStatusCommand) checks(client *nomad.Client, a *nomad.Allocation) {
	if a.ClientStatus != nomad.AllocClientStatusRunning {
		return
	}
	results, err := client.Allocations().Checks(a.ID, nil)
	if err != nil || len(results) == 0 {
		return
	}
	c.ui.Output("\nNomad Service Checks:")
	rows := [][]string{{"Service", "Task", "Name", "Mode", "Status"}}
	for _, r := range sortedChecks(results) {
		rows = append(rows, []string{r.Service, cmp.Or(r.Task, "(group)"), r.Check, r.Mode, r.Status})
	}
	c.table(rows)
}

func (c *allocStatusCommand) task(f *flags, name string, a *nomad.Allocation, usage *nomad.AllocResourceUsage, all bool) {
	s := a.TaskStates[name]
	state := s.State
	if s.Failed {
		state += " (failed)"
	}
	c.ui.Output(fmt.Sprintf("\nTask %q is %q", name, state))
	if r := a.TaskResources[name]; r != nil {
		c.ui.Output("Task Resources:")
		cpu, memory := fmt.Sprintf("%d MHz", *r.CPU), fmt.Sprintf("%d MiB", *r.MemoryMB)
		var u *nomad.ResourceUsage
		if usage != nil && usage.Tasks[name] != nil {
			u = usage.Tasks[name].ResourceUsage
			cpu, memory = used(u, cpu, memory)
		}
		c.table([][]string{{"CPU", "Memory", "Disk"}, {cpu, memory, fmt.Sprintf("%d MiB", a.AllocatedResources.Shared.DiskMB)}})
		if all {
			c.details(u)
		}
	}
	if r := a.AllocatedResources.Tasks[name]; r != nil {
		c.taskDevices(r.Devices)
	}
	if all && usage != nil && usage.Tasks[name] != nil {
		c.deviceStats(usage.Tasks[name].ResourceUsage.DeviceStats, *f.verbose)
	}
	c.hostVolumes(a, name)
	c.ui.Output("\nTask Events:")
	c.pairs([][2]string{
		{"Started At", timeOrNA(s.StartedAt)},
		{"Finished At", timeOrNA(s.FinishedAt)},
		{"Total Restarts", strconv.FormatUint(s.Restarts, 10)},
		{"Last Restart", timeOrNA(s.LastRestart)},
	})
	c.ui.Output("\nRecent Events:")
	rows := [][]string{{"Time", "Type", "Description"}}
	for _, e := range slices.Backward(s.Events) {
		rows = append(rows, []string{stamp(e.Time), e.Type, e.DisplayMessage})
	}
	c.table(rows)
	c.pluginFault(s.Events)
}

// pluginFault shows what is known of the last fault of a plugin at the task.
func (c *allocStatusCommand) pluginFault(events []*nomad.TaskEvent) {
	for _, e := range slices.Backward(events) {
		d := e.Details
		if d["plugin_fault"] == "" {
			continue
		}
		c.ui.Output("\nPlugin Fault:")
		pairs := [][2]string{{"Time", stamp(e.Time)}, {"Plugin", d["plugin"]}, {"Operation", d["plugin_operation"]}}
		for _, more := range [][2]string{{"Panic", d["plugin_panic"]}, {"Deadline", d["plugin_deadline"]}} {
			if more[1] != "" {
				pairs = append(pairs, more)
			}
		}
		c.pairs(pairs)
		c.indented(stackTitle, d["plugin_stack"])
		c.indented(linesTitle, d["plugin_log"])
		return
	}
}

// What stands above the two lists of a fault.
const (
	stackTitle = "Stack, the innermost function first:"
	linesTitle = "Last lines of the call:"
)

// indented shows lines below a title, if there are any.
func (m meta) indented(title, lines string) {
	if lines == "" {
		return
	}
	m.ui.Output(title)
	for line := range strings.SplitSeq(lines, "\n") {
		m.ui.Output("  " + harmless(line))
	}
}

// used puts what is used before what was promised, where it is measured.
func used(u *nomad.ResourceUsage, cpu, memory string) (string, string) {
	if u.CpuStats != nil && len(u.CpuStats.Measured) > 0 {
		cpu = fmt.Sprintf("%.0f/%s", u.CpuStats.TotalTicks, cpu)
	} else {
		cpu = "not measured/" + cpu
	}
	if u.MemoryStats != nil && len(u.MemoryStats.Measured) > 0 {
		memory = fmt.Sprintf("%s/%s", mebibytes(u.MemoryStats.RSS), memory)
	} else {
		memory = "not measured/" + memory
	}
	return cpu, memory
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// details prints all that was measured of a task; nil: nothing was.
func (c *allocStatusCommand) details(u *nomad.ResourceUsage) {
	if u == nil {
		return
	}
	var names, values []string
	add := func(measured []string, key, name, value string) {
		if slices.Contains(measured, key) {
			names, values = append(names, name), append(values, value)
		}
	}
	percent := func(v float64) string { return fmt.Sprintf("%.1f%%", v) }
	if s := u.CpuStats; s != nil {
		add(s.Measured, "Percent", "CPU Percent", percent(s.Percent))
		add(s.Measured, "User Mode", "User", percent(s.UserMode))
		add(s.Measured, "System Mode", "System", percent(s.SystemMode))
	}
	if s := u.MemoryStats; s != nil {
		add(s.Measured, "RSS", "RSS", mebibytes(s.RSS))
		add(s.Measured, "Max Usage", "Max Usage", mebibytes(s.MaxUsage))
	}
	if len(names) > 0 {
		c.ui.Output("\nResource Usage")
		c.table([][]string{names, values})
	}
}

func timeOrNA(t time.Time) string {
	if t.IsZero() {
		return "N/A"
	}
	return t.Local().Format(time.RFC3339)
}
