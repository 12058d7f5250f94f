package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

type monitorExportCommand struct{ meta }

// Synopsis implements [subcommand].
func (*monitorExportCommand) Synopsis() string { return "Print what the agent has logged" }

// Help implements [subcommand].
func (*monitorExportCommand) Help() string {
	return `Usage: wasmnode monitor export [options]

  Prints what systemd's journal has of the agent. With ACLs it takes a management
  token.

Options:

  -service-name=NAME
                  The unit of systemd that the agent is: its name has wasmnode or nomad in it.
  -logs-since=DURATION
                  How long ago what is printed begins; 72h.
  -follow         Print what comes, too, until it is interrupted.
  -on-disk        The agent's log file in place of the journal: it has none, and says so.
  -node-id=NODE   The node whose agent it is: there is one.
  -server-id=NAME The server whose agent it is: there is one.` + commonOptions
}

// Run implements [subcommand].
func (c *monitorExportCommand) Run(args []string) int {
	f := c.flags("monitor export")
	service, since := f.String("service-name", "", ""), f.String("logs-since", "72h", "")
	follow, onDisk := f.Bool("follow", false, ""), f.Bool("on-disk", false, "")
	node, server := f.String("node-id", "", ""), f.String("server-id", "", "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	if *f.json {
		return c.fail(f, errors.New("-json and -t: a log is printed as it is"))
	}
	if *node != "" {
		n, err := findNode(client, *node)
		if err != nil {
			return c.fail(f, err)
		}
		*node = n.ID
	}
	params := map[string]string{
		"service_name": *service, "on_disk": strconv.FormatBool(*onDisk), "follow": strconv.FormatBool(*follow),
		"node_id": *node, "server_id": *server, "plain": "true",
	}
	if !*onDisk {
		params["logs_since"] = *since
	}
	lines, err := client.Raw().Response("/v1/agent/monitor/export", &nomad.QueryOptions{Params: params})
	if err != nil {
		return c.fail(f, err)
	}
	defer lines.Close()
	if _, err := io.Copy(c.ui.out, lines); err != nil {
		return c.fail(f, fmt.Errorf("monitor export: %w", err))
	}
	return 0
}
