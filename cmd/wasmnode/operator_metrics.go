package main

import (
	"fmt"
	"io"

	nomad "github.com/hashicorp/nomad/api"
)

type operatorMetricsCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorMetricsCommand) Synopsis() string { return "Show the metrics" }

// Help implements [subcommand].
func (*operatorMetricsCommand) Help() string {
	return `Usage: wasmnode operator metrics [options]

  Prints what the node measures of itself and of what it runs.

Options:

  -format=FORM   prometheus, for its format of text; without it JSON.
  -pretty        Indent the JSON.` + commonOptions
}

// Run implements [subcommand].
func (c *operatorMetricsCommand) Run(args []string) int {
	f := c.flags("operator metrics")
	form, pretty := f.String("format", "", ""), f.Bool("pretty", false, "")
	client := c.connect(f, args, 0, 0, c.Help())
	if client == nil {
		return 1
	}
	if *f.json {
		var metrics nomad.MetricsSummary
		if _, err := client.Raw().Query("/v1/metrics", &metrics, nil); err != nil {
			return c.fail(f, err)
		}
		return c.printJSON(metrics)
	}
	params := map[string]string{}
	if *form != "" {
		params["format"] = *form
	}
	if *pretty {
		params["pretty"] = "true"
	}
	answer, err := client.Raw().Response("/v1/metrics", &nomad.QueryOptions{Params: params})
	if err != nil {
		return c.fail(f, err)
	}
	defer answer.Close()
	text, err := io.ReadAll(answer)
	if err != nil {
		return c.fail(f, fmt.Errorf("/v1/metrics: %w", err))
	}
	c.ui.Output(string(text))
	return 0
}
