package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	nomad "github.com/hashicorp/nomad/api"
)

type nodeStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*nodeStatusCommand) Synopsis() string { return "Show the node, its drivers and what runs on it" }

// Help implements [subcommand].
func (*nodeStatusCommand) Help() string {
	return `Usage: wasmnode node status [options] [NODE]

  Lists the nodes, or shows one. NODE may be the beginning of an ID.

Options:

  -self              Show the node that answers.
  -stats             Also show what each processor and device uses.
  -allocs            In the list, count the allocations that run.
  -os                In the list, show the operating systems.
  -quiet             Only print the IDs of the list.
  -short             Do not show drivers, events and attributes.` + listOptions + commonOptions
}

// Run implements [subcommand].
func (c *nodeStatusCommand) Run(args []string) int {
	f := c.flags("node status")
	self := f.Bool("self", false, "")
	var o nodeStatusFlags
	o.bind(f)
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if f.NArg() == 0 && !*self {
		return c.list(f, client, o)
	}
	node, err := nodeOf(client, *self, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(node)
	}
	return c.show(f, client, node, o)
}

// nodeStatusFlags are what of nodes is shown.
type nodeStatusFlags struct {
	listFlags
	stats, allocs, os, quiet, short bool
}

func (o *nodeStatusFlags) bind(f *flags) {
	o.listFlags.bind(f)
	f.BoolVar(&o.stats, "stats", false, "")
	f.BoolVar(&o.allocs, "allocs", false, "")
	f.BoolVar(&o.os, "os", false, "")
	f.BoolVar(&o.quiet, "quiet", false, "")
	f.BoolVar(&o.short, "short", false, "")
}

func (c *nodeStatusCommand) list(f *flags, client *nomad.Client, o nodeStatusFlags) int {
	q := o.query()
	q.Params = map[string]string{"os": strconv.FormatBool(o.os)}
	nodes, meta, err := client.Nodes().List(q)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(nodes)
	}
	if len(nodes) == 0 {
		c.ui.Output("No nodes registered")
		return 0
	}
	if o.quiet {
		for _, n := range nodes {
			c.ui.Output(f.short(n.ID))
		}
		return 0
	}
	columns := []nodeColumn{}
	if o.os {
		columns = append(columns, nodeColumn{"OS", func(n *nomad.NodeListStub) string { return n.Attributes["os.name"] }})
	}
	if o.allocs {
		running, err := runningAllocations(client, nodes)
		if err != nil {
			return c.fail(f, err)
		}
		columns = append(columns, nodeColumn{"Running Allocs", func(n *nomad.NodeListStub) string { return strconv.Itoa(running[n.ID]) }})
	}
	c.nodeTable(f, nodes, columns)
	c.more(meta)
	return 0
}

// nodeColumn is a column of a list of nodes that not everybody wants.
type nodeColumn struct {
	name string
	of   func(*nomad.NodeListStub) string
}

func (m meta) nodeTable(f *flags, nodes []*nomad.NodeListStub, columns []nodeColumn) {
	rows := [][]string{{"ID", "Node Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"}}
	for _, n := range nodes {
		rows = append(rows, []string{f.short(n.ID), n.NodePool, n.Datacenter, n.Name, n.NodeClass, strconv.FormatBool(n.Drain), n.SchedulingEligibility, n.Status})
	}
	if *f.verbose {
		rows[0] = slices.Insert(rows[0], 5, "Address", "Version")
		for i, n := range nodes {
			rows[i+1] = slices.Insert(rows[i+1], 5, n.Address, n.Version)
		}
	}
	for _, c := range columns {
		rows[0] = append(rows[0], c.name)
		for i, n := range nodes {
			rows[i+1] = append(rows[i+1], c.of(n))
		}
	}
	m.table(rows)
}

func runningAllocations(client *nomad.Client, nodes []*nomad.NodeListStub) (map[string]int, error) {
	counts := map[string]int{}
	for _, n := range nodes {
		allocs, _, err := client.Nodes().Allocations(n.ID, nil)
		if err != nil {
			return nil, err
		}
		for _, a := range allocs {
			if a.ClientStatus == nomad.AllocClientStatusRunning {
				counts[n.ID]++
			}
		}
	}
	return counts, nil
}

// nodeVolumes lists the volumes of a node, where it has any.
func (c *nodeStatusCommand) nodeVolumes(n *nomad.Node) {
	if len(n.HostVolumes) == 0 {
		return
	}
	rows := [][]string{{"Name", "ReadOnly", "Source", "ID"}}
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		v := n.HostVolumes[name]
		rows = append(rows, []string{name, fmt.Sprint(v.ReadOnly), v.Path, v.ID})
	}
	c.ui.Output("\nHost Volumes")
	c.table(rows)
}

func (c *nodeStatusCommand) show(f *flags, client *nomad.Client, n *nomad.Node, o nodeStatusFlags) int {
	allocs, _, err := client.Nodes().Allocations(n.ID, nil)
	if err != nil {
		return c.fail(f, err)
	}
	usage, err := nodeUsageOf(client, n, allocs, o)
	if err != nil {
		return c.fail(f, err)
	}
	c.pairs([][2]string{
		{"ID", n.ID},
		{"Name", n.Name},
		{"Node Pool", n.NodePool},
		{"Class", n.NodeClass},
		{"DC", n.Datacenter},
		{"Drain", drainText(n.DrainStrategy)},
		{"Eligibility", n.SchedulingEligibility},
		{"Status", n.Status},
		{"CSI Controllers", ""},
		{"CSI Drivers", ""},
		{"Uptime", usage.uptime()},
		{"Host Volumes", strings.Join(slices.Sorted(maps.Keys(n.HostVolumes)), ",")},
		{"Host Networks", strings.Join(slices.Sorted(maps.Keys(n.HostNetworks)), ",")},
		{"CSI Volumes", ""},
		{"Driver Status", driverStatus(n.Drivers)},
		{"CPU", fmt.Sprintf("%d MHz", n.NodeResources.Cpu.CpuShares)},
		{"Memory", fmt.Sprintf("%d MiB", n.NodeResources.Memory.MemoryMB)},
		{"Disk", fmt.Sprintf("%d MiB", n.NodeResources.Disk.DiskMB)},
	})
	if !o.short {
		c.drivers(n)
		c.nodeDevices(n.NodeResources.Devices, *f.verbose)
		if *f.verbose {
			c.nodeVolumes(n)
		}
		c.events(f, n)
		c.allocated(n, allocs)
	}
	if usage != nil {
		c.usage(f, n, usage, o.stats)
	}
	c.ui.Output("\nAllocations")
	stubs := make([]*nomad.AllocationListStub, 0, len(allocs))
	for _, a := range allocs {
		stubs = append(stubs, a.Stub())
	}
	allocationTable(c.meta, f, stubs)
	c.unclaimed(f, client)
	if *f.verbose && !o.short {
		c.ui.Output("\nAttributes")
		var pairs [][2]string
		for _, name := range slices.Sorted(maps.Keys(n.Attributes)) {
			pairs = append(pairs, [2]string{name, n.Attributes[name]})
		}
		c.pairs(pairs)
	}
	return 0
}

// driverStatus names the drivers that tasks can have, and those that are not healthy.
func driverStatus(drivers map[string]*nomad.DriverInfo) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		switch d := drivers[name]; {
		case d.Detected && d.Healthy:
			names = append(names, name)
		case d.Detected:
			names = append(names, name+" (unhealthy)")
		}
	}
	return strings.Join(names, ",")
}

// allocated prints how much of the node is promised to allocations that have not ended.
func (c *nodeStatusCommand) allocated(n *nomad.Node, allocs []*nomad.Allocation) {
	var cpu, memory, disk int64
	count := 0
	for _, a := range allocs {
		if a.ClientTerminalStatus() || a.AllocatedResources == nil {
			continue
		}
		count++
		disk += a.AllocatedResources.Shared.DiskMB
		for _, t := range a.AllocatedResources.Tasks {
			cpu, memory = cpu+t.Cpu.CpuShares, memory+t.Memory.MemoryMB
		}
	}
	mib := func(mb int64) string { return humanize.IBytes(uint64(max(0, mb)) << 20) }
	of := func(used, all string) string { return used + "/" + all }
	r, kept := n.NodeResources, n.ReservedResources
	c.ui.Output("\nAllocated Resources")
	c.table([][]string{{"CPU", "Memory", "Disk", "Alloc Count"}, {
		fmt.Sprintf("%d/%d MHz", cpu, r.Cpu.CpuShares-int64(kept.Cpu.CpuShares)), of(mib(memory), mib(r.Memory.MemoryMB-int64(kept.Memory.MemoryMB))),
		of(mib(disk), mib(r.Disk.DiskMB-int64(kept.Disk.DiskMB))), strconv.Itoa(count),
	}})
}

// drainText tells how a node is being drained.
func drainText(d *nomad.DrainStrategy) string {
	if d == nil {
		return "false"
	}
	text := fmt.Sprintf("true; %s deadline", timeOrNA(d.ForceDeadline))
	switch {
	case d.Deadline < 0:
		text = "true; force drain"
	case d.ForceDeadline.IsZero():
		text = "true; no deadline"
	}
	if d.IgnoreSystemJobs {
		text += "; ignoring system jobs"
	}
	return text
}

func (c *nodeStatusCommand) drivers(n *nomad.Node) {
	c.ui.Output("\nDrivers")
	rows := [][]string{{"Driver", "Detected", "Healthy", "Message", "Time"}}
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		rows = append(rows, []string{name, strconv.FormatBool(d.Detected), strconv.FormatBool(d.Healthy), d.HealthDescription, timeOrNA(d.UpdateTime)})
	}
	c.table(rows)
}

func (c *nodeStatusCommand) events(f *flags, n *nomad.Node) {
	c.ui.Output("\nNode Events")
	rows := [][]string{{"Time", "Subsystem", "Message"}}
	if *f.verbose {
		rows[0] = append(rows[0], "Details")
	}
	for _, e := range slices.Backward(n.Events) {
		var details []string
		for _, name := range slices.Sorted(maps.Keys(e.Details)) {
			details = append(details, name+": "+e.Details[name])
		}
		subsystem := e.Subsystem
		if d := e.Details["driver"]; d != "" {
			subsystem += ": " + d
		}
		row := []string{timeOrNA(e.Timestamp), subsystem, e.Message, strings.Join(details, ", ")}
		rows = append(rows, row[:len(rows[0])])
	}
	c.table(rows)
}
