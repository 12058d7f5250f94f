package main

import (
	"errors"
	"fmt"
	"strconv"
)

type raftListPeersCommand struct{ meta }

// Synopsis implements [subcommand].
func (*raftListPeersCommand) Synopsis() string { return "Show the servers that agree: there is one" }

// Help implements [subcommand].
func (*raftListPeersCommand) Help() string {
	return `Usage: wasmnode operator raft list-peers [options]

  Shows the servers that agree with each other. A node is its own server, and leads.

Options:

  -stale  Changes nothing: there is one server.` + commonOptions
}

// Run implements [subcommand].
func (c *raftListPeersCommand) Run(args []string) int {
	f := c.flags("operator raft list-peers")
	f.Bool("stale", false, "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	raft, err := client.Operator().RaftGetConfiguration(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(raft)
	}
	rows := [][]string{{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}}
	for _, s := range raft.Servers {
		state := "follower"
		if s.Leader {
			state = "leader"
		}
		rows = append(rows, []string{s.Node, s.ID, s.Address, state, strconv.FormatBool(s.Voter), s.RaftProtocol})
	}
	c.table(rows)
	return 0
}

type raftRemovePeerCommand struct{ meta }

// Synopsis implements [subcommand].
func (*raftRemovePeerCommand) Synopsis() string { return "Remove a server, but for the only one" }

// Help implements [subcommand].
func (*raftRemovePeerCommand) Help() string {
	return `Usage: wasmnode operator raft remove-peer [options]

  Has the servers agree without one of them. A node refuses that: it is the only one.

Options:

  -peer-id=ID  The server.` + commonOptions
}

// Run implements [subcommand].
func (c *raftRemovePeerCommand) Run(args []string) int {
	f := c.flags("operator raft remove-peer")
	id := f.String("peer-id", "", "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	if *id == "" {
		return c.fail(f, errors.New("-peer-id names the server"))
	}
	if err := client.Operator().RaftRemovePeerByID(*id, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Removed peer with id %q", *id))
	return 0
}

type raftTransferLeadershipCommand struct{ meta }

// Synopsis implements [subcommand].
func (*raftTransferLeadershipCommand) Synopsis() string {
	return "Have another server lead: there is none"
}

// Help implements [subcommand].
func (*raftTransferLeadershipCommand) Help() string {
	return `Usage: wasmnode operator raft transfer-leadership [options]

  Has another server lead. A node leads itself: that is no change, and there is no other.

Options:

  -peer-id=ID            The server, by its ID;
  -peer-address=ADDRESS  or by its address.` + commonOptions
}

// Run implements [subcommand].
func (c *raftTransferLeadershipCommand) Run(args []string) int {
	f := c.flags("operator raft transfer-leadership")
	id, address := f.String("peer-id", "", ""), f.String("peer-address", "", "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	if (*id == "") == (*address == "") {
		return c.fail(f, errors.New("-peer-id or -peer-address names the server, one of them"))
	}
	if *id != "" {
		if err := client.Operator().RaftTransferLeadershipByID(*id, nil); err != nil {
			return c.fail(f, err)
		}
		c.ui.Output(fmt.Sprintf("Transferred leadership to peer with id %q", *id))
		return 0
	}
	if err := client.Operator().RaftTransferLeadershipByAddress(*address, nil); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("Transferred leadership to peer with address %q", *address))
	return 0
}
