package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	nomad "github.com/hashicorp/nomad/api"
)

type monitorCommand struct{ meta }

// Synopsis implements [subcommand].
func (*monitorCommand) Synopsis() string { return "Follow the agent's log" }

// Help implements [subcommand].
func (*monitorCommand) Help() string {
	return `Usage: wasmnode monitor [options]

  Prints what the agent logs from now on, until it is interrupted.

Options:

  -log-level=LEVEL
                  trace, debug, info, warn or error: also below what the agent's own log has;
                  info.
  -log-include-location
                  Where in the code each line is written.
  -node-id=NODE   The node whose agent it is: there is one.
  -server-id=NAME The server whose agent it is: there is one.` + commonOptions
}

// Run implements [subcommand].
func (c *monitorCommand) Run(args []string) int {
	f := c.flags("monitor")
	level, location := f.String("log-level", "", ""), f.Bool("log-include-location", false, "")
	node, server := f.String("node-id", "", ""), f.String("server-id", "", "")
	if !c.parse(f, args, 0, 0, c.Help()) {
		return 1
	}
	if c.templated() {
		return c.fail(f, errors.New("-t: a log is printed as it comes: use -json, which prints a line each"))
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	if *node != "" {
		n, err := findNode(client, *node)
		if err != nil {
			return c.fail(f, err)
		}
		*node = n.ID
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := client.Agent().Monitor(stop, &nomad.QueryOptions{Params: map[string]string{
		"log_level": *level, "node_id": *node, "server_id": *server,
		"log_json": strconv.FormatBool(*f.json), "log_include_location": strconv.FormatBool(*location),
	}})
	for {
		select {
		case frame, open := <-frames:
			if open {
				c.ui.Output(strings.TrimSuffix(string(frame.Data), "\n"))
			} else {
				frames = nil // why, comes next
			}
		case err := <-errs:
			if errors.Is(err, io.EOF) {
				err = errors.New("the agent has ended the stream")
			}
			return c.fail(f, fmt.Errorf("monitor: %w", err))
		case <-interrupts:
			return 0
		}
	}
}
