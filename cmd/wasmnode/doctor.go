package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// packagedConfig is where packages have the configuration.
const packagedConfig = "/etc/wasmnode"

type doctorCommand struct{ meta }

// Synopsis implements [subcommand].
func (*doctorCommand) Synopsis() string {
	return "Say what is wrong with a node or its machine, and what to type next"
}

// Help implements [subcommand].
func (*doctorCommand) Help() string {
	return `Usage: wasmnode doctor [options]

  Looks at what a node needs: its machine, its configuration, its data directory, its
  plugins and, if an agent answers, what that says of itself. Of each thing it says
  whether it is well, and what to type where it is not. Nothing is changed.

  The exit code is 1 when something that is needed is not there ("failed"); most works
  without what is a "warning". Of one plugin, wasmnode plugin doctor says more.

Options:

  -config=PATH     A file or directory of the agent's configuration; it may be given
                   several times. By default ` + packagedConfig + `, if that is there.
  -data-dir=DIR, -plugin-dir=DIR
                   Other directories than those of the configuration.

  An agent is looked for where the configuration says, unless -address or NOMAD_ADDR do.` + commonOptions
}

// Run implements [subcommand].
func (c *doctorCommand) Run(args []string) int {
	f := c.flags("doctor")
	var o agent.Options
	f.Func("config", "", func(path string) error { o.ConfigPaths = append(o.ConfigPaths, path); return nil })
	f.StringVar(&o.DataDir, "data-dir", "", "")
	f.StringVar(&o.PluginDir, "plugin-dir", "", "")
	if !c.parse(f, args, 0, 0, c.Help()) {
		return 1
	}
	if _, err := os.Stat(packagedConfig); err == nil && len(o.ConfigPaths) == 0 {
		o.ConfigPaths = []string{packagedConfig}
	}
	d := &agent.Findings{}
	configured := d.Configuration(o)
	d.Machine(configured)
	d.Data(configured)
	if f.address == defaultAddress && os.Getenv("NOMAD_ADDR") == "" {
		f.address = configured.Address
	}
	if !c.node(f, d) {
		d.Plugins(configured)
	}
	return c.printFindings(f, d)
}

// node looks at the agent and its plugins, and reports whether it says what these are.
func (c *doctorCommand) node(f *flags, d *agent.Findings) bool {
	client, err := c.client(f)
	if err != nil {
		d.Add(agent.FindingFailed, "node", "agent", firstLine(err), "")
		return false
	}
	conditions, err := health(client)
	if err != nil {
		d.Add(agent.FindingWarning, "node", "agent", unanswered(f, err), "systemctl status wasmnode, or wasmnode agent -dev")
		return false
	}
	d.Add(agent.FindingOK, "node", "agent", "it answers at "+f.address, "")
	for _, condition := range conditions {
		condition.find(d)
	}
	var plugins []catalog.PluginStatus
	if _, err := client.Raw().Query("/v1/agent/plugins", &plugins, nil); err != nil {
		d.Add(agent.FindingWarning, "node", "plugins", firstLine(err), "wasmnode doctor -token=SECRET")
		return false
	}
	if len(plugins) == 0 {
		d.Add(agent.FindingWarning, "plugins", "plugin_dir", "the node has no plugins, and runs no job without one", "copy plugins to its plugin directory")
	}
	for _, p := range plugins {
		d.Add(stateOfPlugin(p), "plugins", filepath.Base(p.File), strings.TrimSuffix(fmt.Sprintf("%s: %s", p.State, p.Reason), ": "), nextForPlugin(p))
	}
	return true
}

// stateOfPlugin is what a plugin's state means for its node.
func stateOfPlugin(p catalog.PluginStatus) string {
	switch p.State {
	case catalog.StateHealthy:
		return agent.FindingOK
	case catalog.StateRejected:
		return agent.FindingFailed
	}
	return agent.FindingWarning // it is loading, waits for a grant, or for what it works with
}

func nextForPlugin(p catalog.PluginStatus) string {
	switch p.State {
	case catalog.StateHealthy, catalog.StateLoading:
		return ""
	}
	return "wasmnode plugin doctor " + shellWord(p.File)
}

// unanswered is why no agent answers.
func unanswered(f *flags, err error) string {
	if unreachable := new(url.Error); errors.As(err, &unreachable) {
		return fmt.Sprintf("none answers at %s: %v", f.address, unreachable.Err)
	}
	return firstLine(err)
}

// condition is what an agent says of itself.
type condition struct {
	Name, Part, Text, Remedy string
	Unhealthy                bool
	Since                    time.Time
}

// find adds a condition to what was found.
func (c condition) find(d *agent.Findings) {
	status, text := agent.FindingWarning, c.Text
	if c.Unhealthy {
		status = agent.FindingFailed
	}
	if !c.Since.IsZero() {
		text += " (since " + c.Since.Local().Format(time.DateTime) + ")"
	}
	d.Add(status, "node", c.Name, text, c.Remedy)
}

// health asks an agent for its conditions, which an unhealthy one tells as an error.
func health(client *nomad.Client) ([]condition, error) {
	var answer struct{ Conditions []condition }
	_, err := client.Raw().Query("/v1/agent/health", &answer, nil)
	var refused nomad.UnexpectedResponseError
	if errors.As(err, &refused) && refused.StatusCode() == http.StatusInternalServerError {
		err = json.Unmarshal([]byte(refused.Body()), &answer)
	}
	return answer.Conditions, err
}

// printFindings prints what was found, and returns the exit code.
func (m meta) printFindings(f *flags, d *agent.Findings) int {
	code := 0
	if d.Failed() {
		code = 1
	}
	if *f.json {
		return max(code, m.printJSON(d))
	}
	for _, found := range d.Findings {
		m.ui.Output(fmt.Sprintf("%-7s  %-9s  %-12s  %s", found.Status, found.Part, harmless(found.Name), harmless(found.Text)))
		if found.Next != "" {
			m.ui.Output(strings.Repeat(" ", 34) + "-> " + harmless(found.Next))
		}
	}
	return code
}
