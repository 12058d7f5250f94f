package main

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
	nomad "github.com/hashicorp/nomad/api"
)

type volumeStatusCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeStatusCommand) Synopsis() string { return "List the volumes, or show one" }

// Help implements [subcommand].
func (*volumeStatusCommand) Help() string {
	return `Usage: wasmnode volume status [options] [ID]

  Lists the dynamic host volumes, or shows the one whose ID or name that is, or begins
  so. Those of the configuration are on the page of their node: node status.

Options:

  -type=TYPE        host, or csi: of that type there are none.
  -node=ID          Those of a node.
  -node-pool=POOL   Those of a node pool.
  -short            Do not show what a volume can be asked for, and who has it.` + commonOptions
}

// Run implements [subcommand].
func (c *volumeStatusCommand) Run(args []string) int {
	f := c.flags("volume status")
	var of nomad.HostVolumeListRequest
	f.StringVar(&of.NodeID, "node", "", "")
	f.StringVar(&of.NodePool, "node-pool", "", "")
	kind, short := f.String("type", "", ""), f.Bool("short", false, "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	ofNode := of.NodeID != "" || of.NodePool != ""
	switch {
	case *kind != "" && *kind != "host" && *kind != "csi":
		return c.fail(f, fmt.Errorf("No such volume type %q", *kind)) //nolint:staticcheck // as in Nomad
	case *kind == "csi" && ofNode:
		return c.fail(f, errors.New("-node and -node-pool can only be used with -type host"))
	case *kind == "csi" && f.NArg() == 1:
		return c.fail(f, errCSI)
	case *kind == "csi":
		return c.noCSI(f)
	case f.NArg() == 1 && ofNode:
		return c.fail(f, errors.New("-node or -node-pool options can only be used when no ID is provided"))
	case f.NArg() == 1:
		return c.show(f, client, *short)
	}
	list, _, err := client.HostVolumes().List(&of, nil)
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(list)
	}
	c.ui.Output("Dynamic Host Volumes")
	if len(list) == 0 {
		c.ui.Output("No dynamic host volumes")
	} else {
		c.volumeTable(f, list)
	}
	if *kind == "" {
		c.ui.Output("")
		return c.noCSI(f)
	}
	return 0
}

// noCSI lists the volumes of CSI.
func (m meta) noCSI(f *flags) int {
	if *f.json {
		return m.printJSON([]any{})
	}
	m.ui.Output("Container Storage Interface")
	m.ui.Output("No CSI volumes")
	return 0
}

func (m meta) volumeTable(f *flags, list []*nomad.HostVolumeStub) {
	rows := [][]string{{"ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"}}
	for _, v := range list {
		rows = append(rows, []string{f.short(v.ID), v.Name, v.Namespace, v.PluginID, f.short(v.NodeID), v.NodePool, string(v.State)})
	}
	m.table(rows)
}

// findVolume returns the one host volume whose ID or name is, or begins with, a text.
func findVolume(c *nomad.Client, text, namespace string) (*nomad.HostVolumeStub, error) {
	list, _, err := c.HostVolumes().List(nil, &nomad.QueryOptions{Prefix: text, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	var ids []string
	byID, exact := map[string]*nomad.HostVolumeStub{}, []*nomad.HostVolumeStub{}
	for _, v := range list {
		byID[v.ID], ids = v, append(ids, v.ID)
		if v.ID == text || v.Name == text {
			exact = append(exact, v)
		}
	}
	if len(exact) == 1 {
		return exact[0], nil
	}
	id, err := one("host volume", text, ids)
	if err != nil {
		return nil, err
	}
	return byID[id], nil
}

func (c *volumeStatusCommand) show(f *flags, client *nomad.Client, short bool) int {
	stub, err := findVolume(client, f.Arg(0), f.namespace)
	if err != nil {
		return c.fail(f, err)
	}
	v, _, err := client.HostVolumes().Get(stub.ID, &nomad.QueryOptions{Namespace: stub.Namespace})
	switch {
	case err != nil:
		return c.fail(f, err)
	case *f.json:
		return c.printJSON(v)
	}
	c.pairs([][2]string{
		{"ID", v.ID}, {"Name", v.Name}, {"Namespace", v.Namespace}, {"Plugin ID", v.PluginID}, {"Node ID", v.NodeID}, {"Node Pool", v.NodePool},
		{"Capacity", humanize.IBytes(uint64(max(0, v.CapacityBytes)))}, {"State", string(v.State)}, {"Host Path", v.HostPath},
	})
	if short {
		return 0
	}
	c.ui.Output("\nCapabilities")
	rows := [][]string{{"Access Mode", "Attachment Mode"}}
	for _, is := range v.RequestedCapabilities {
		rows = append(rows, []string{string(is.AccessMode), string(is.AttachmentMode)})
	}
	c.table(rows)
	c.ui.Output("\nAllocations")
	if len(v.Allocations) == 0 {
		c.ui.Output("No allocations placed")
		return 0
	}
	allocationTable(c.meta, f, v.Allocations)
	return 0
}
