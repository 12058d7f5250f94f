package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type autopilotGetConfigCommand struct{ meta }

// Synopsis implements [subcommand].
func (*autopilotGetConfigCommand) Synopsis() string {
	return "Show how servers look after each other: there is one"
}

// Help implements [subcommand].
func (*autopilotGetConfigCommand) Help() string {
	return `Usage: wasmnode operator autopilot get-config [options]

  Shows how servers look after each other: Nomad's default. With one server, none of
  it has an effect.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *autopilotGetConfigCommand) Run(args []string) int {
	f := c.flags("operator autopilot get-config")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	a, _, err := client.Operator().AutopilotGetConfiguration(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(a)
	}
	c.pairs([][2]string{
		{"CleanupDeadServers", strconv.FormatBool(a.CleanupDeadServers)},
		{"LastContactThreshold", a.LastContactThreshold.String()},
		{"MaxTrailingLogs", strconv.FormatUint(a.MaxTrailingLogs, 10)},
		{"MinQuorum", strconv.FormatUint(uint64(a.MinQuorum), 10)},
		{"ServerStabilizationTime", a.ServerStabilizationTime.String()},
		{"EnableRedundancyZones", strconv.FormatBool(a.EnableRedundancyZones)},
		{"DisableUpgradeMigration", strconv.FormatBool(a.DisableUpgradeMigration)},
		{"EnableCustomUpgrades", strconv.FormatBool(a.EnableCustomUpgrades)},
	})
	return 0
}

type autopilotSetConfigCommand struct{ meta }

// Synopsis implements [subcommand].
func (*autopilotSetConfigCommand) Synopsis() string {
	return "Set how servers look after each other, to what it is"
}

// Help implements [subcommand].
func (*autopilotSetConfigCommand) Help() string {
	return `Usage: wasmnode operator autopilot set-config [options]

  Sets how servers look after each other. A node is its only server: it takes what
  is set already, and refuses what would change it.

Options:

  -cleanup-dead-servers=true|false        Servers that are dead are forgotten.
  -disable-upgrade-migration=true|false   Newer servers do not wait for each other.
  -enable-custom-upgrades=true|false      They go by versions of their own.
  -enable-redundancy-zones=true|false     One server of each zone votes.
  -last-contact-threshold=TIME            A server that is not heard of for longer is not healthy.
  -max-trailing-logs=N                    Nor is one that is further behind.
  -min-quorum=N                           So many servers are kept.
  -server-stabilization-time=TIME         A new server is healthy for so long before it votes.` + commonOptions
}

// Run implements [subcommand].
func (c *autopilotSetConfigCommand) Run(args []string) int {
	f := c.flags("operator autopilot set-config")
	var a *nomad.AutopilotConfiguration
	changes := autopilotFlags(f, func() *nomad.AutopilotConfiguration { return a })
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	var err error
	if a, _, err = client.Operator().AutopilotGetConfiguration(nil); err != nil {
		return c.fail(f, err)
	}
	for _, change := range *changes {
		change()
	}
	updated, _, err := client.Operator().AutopilotCASConfiguration(a, nil)
	switch {
	case err != nil:
		return c.fail(f, err)
	case !updated:
		return c.fail(f, errors.New("it was changed meanwhile: try again"))
	}
	c.ui.Output("Configuration updated!")
	return 0
}

// autopilotFlags are the options, each of which is a change once the configuration is known.
func autopilotFlags(f *flags, of func() *nomad.AutopilotConfiguration) *[]func() {
	changes := new([]func())
	boolean := func(name string, field func() *bool) {
		f.BoolFunc(name, "", func(text string) error {
			value, err := strconv.ParseBool(text)
			*changes = append(*changes, func() { *field() = value })
			return err
		})
	}
	duration := func(name string, field func() *time.Duration) {
		f.Func(name, "", func(text string) error {
			value, err := time.ParseDuration(text)
			*changes = append(*changes, func() { *field() = value })
			return err
		})
	}
	boolean("cleanup-dead-servers", func() *bool { return &of().CleanupDeadServers })
	boolean("disable-upgrade-migration", func() *bool { return &of().DisableUpgradeMigration })
	boolean("enable-custom-upgrades", func() *bool { return &of().EnableCustomUpgrades })
	boolean("enable-redundancy-zones", func() *bool { return &of().EnableRedundancyZones })
	duration("last-contact-threshold", func() *time.Duration { return &of().LastContactThreshold })
	duration("server-stabilization-time", func() *time.Duration { return &of().ServerStabilizationTime })
	f.Func("max-trailing-logs", "", func(text string) error {
		value, err := strconv.ParseUint(text, 10, 64)
		*changes = append(*changes, func() { of().MaxTrailingLogs = value })
		return err
	})
	f.Func("min-quorum", "", func(text string) error {
		value, err := strconv.ParseUint(text, 10, 32)
		*changes = append(*changes, func() { of().MinQuorum = uint(value) })
		return err
	})
	return changes
}

type autopilotHealthCommand struct{ meta }

// Synopsis implements [subcommand].
func (*autopilotHealthCommand) Synopsis() string { return "Show the health of the one server" }

// Help implements [subcommand].
func (*autopilotHealthCommand) Help() string {
	return `Usage: wasmnode operator autopilot health [options]

  Shows whether the one server is healthy.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *autopilotHealthCommand) Run(args []string) int {
	f := c.flags("operator autopilot health")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	h, _, err := client.Operator().AutopilotServerHealth(nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(h)
	}
	c.pairs([][2]string{
		{"Healthy", strconv.FormatBool(h.Healthy)}, {"FailureTolerance", strconv.Itoa(h.FailureTolerance)},
		{"Leader", h.Leader}, {"Voters", strings.Join(h.Voters, ", ")},
	})
	rows := [][]string{{"ID", "Name", "Address", "SerfStatus", "Version", "Leader", "Voter", "Healthy", "LastContact", "LastTerm", "LastIndex", "StableSince"}}
	for _, s := range h.Servers {
		rows = append(rows, []string{
			s.ID, s.Name, s.Address, s.SerfStatus, s.Version, strconv.FormatBool(s.Leader), strconv.FormatBool(s.Voter), strconv.FormatBool(s.Healthy),
			s.LastContact.String(), strconv.FormatUint(s.LastTerm, 10), strconv.FormatUint(s.LastIndex, 10), s.StableSince.Format(time.RFC3339),
		})
	}
	c.ui.Output("\nServers")
	c.table(rows)
	return 0
}
