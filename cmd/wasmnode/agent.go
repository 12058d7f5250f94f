package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/sdnotify"
)

type agentCommand struct{ meta }

// Synopsis implements [subcommand].
func (*agentCommand) Synopsis() string { return "Run a node" }

// Help implements [subcommand].
func (*agentCommand) Help() string {
	return `Usage: wasmnode agent [options]

  Runs a node until it is sent SIGINT or SIGTERM. It logs one line when its API
  answers, and one when it is ready: what ran before is restored, and plugins are
  loaded.

  Under systemd, a unit of Type=notify is started when the API answers; the watchdog is
  told that the agent lives as long as none of its layers is stuck.

  SIGHUP has it read its configuration again. What plugins are granted and given,
  which plugins and drivers are allowed, the log level and the certificates of tls
  take effect at once; what else has changed is named in the log and takes effect
  after a restart. A configuration that is wrong changes nothing.

Options:

  -dev                   Keep everything in a temporary directory, and let WASI
                         programs come from the working directory. Compiled plugins
                         are kept for the next run, in the user's cache directory.
  -config=FILE|DIR       Read the configuration; may be given several times.
  -data-dir=DIR          Where all that has to survive is kept.
  -plugin-dir=DIR        Where .wasm plugins are dropped.
  -http-addr=HOST:PORT   Where the HTTP API listens; port 0 is any free one. Or
                         unix:///PATH, a socket.
  -log-level=LEVEL       trace, debug, info, warn or error.

  -bind=ADDRESS          Where the HTTP API listens, on its usual port.
  -node=NAME             Of the node; the machine's host name by default.
  -node-class=CLASS  -node-pool=POOL  -region=REGION  -dc=DATACENTER
                         Where jobs find the node.
  -meta=KEY=VALUE        Of the node; may be given several times.
  -servers=ADDRESS,...   Join the Nomad servers at these RPC addresses; without them the
                         node schedules for itself.
  -acl-enabled           Requests need tokens.
  -log-json              Log objects of JSON.

  Flags win over files. The other flags of Nomad's agent are known, too: what has no
  effect here is logged, and what would make another node of it is refused.`
}

// Run implements [subcommand].
func (c *agentCommand) Run(args []string) int {
	var o agent.Options
	f := agentFlags(&o)
	if code, ok := c.parseAlone(f, args, c.Help()); !ok {
		return code
	}
	if o.Dev {
		o.CodeDir = codeDir()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangups := make(chan os.Signal, 1) // one that comes while another is acted on is not lost
	signal.Notify(hangups, syscall.SIGHUP)
	o.Reload = hangups
	o.LogOutput = os.Stderr
	self, err := os.Executable()
	if err != nil {
		c.ui.Error("Error: " + err.Error())
		return 1
	}
	o.Supervisor = []string{self, "supervisor"}
	if o.Service, err = sdnotify.Open(); err != nil {
		c.ui.Error("Error: " + err.Error())
		return 1
	}
	defer func() { _ = o.Service.Close() }() // the manager sees the end of the process
	if err := agent.Run(ctx, o); err != nil {
		c.ui.Error("Error: " + err.Error())
		return 1
	}
	return 0
}

// agentFlags are those of an agent, ours and all of Nomad's, which set its options.
func agentFlags(o *agent.Options) *flag.FlagSet {
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&o.Dev, "dev", false, "")
	f.Func("config", "", func(s string) error { o.ConfigPaths = append(o.ConfigPaths, s); return nil })
	f.StringVar(&o.DataDir, "data-dir", "", "")
	f.StringVar(&o.PluginDir, "plugin-dir", "", "")
	f.StringVar(&o.HTTPAddr, "http-addr", "", "")
	f.StringVar(&o.LogLevel, "log-level", "", "")
	for _, flag := range config.Flags() {
		given := func(value string) error {
			o.Set = append(o.Set, config.Setting{Flag: flag, Value: value})
			return nil
		}
		if flag.Switch {
			f.BoolFunc(flag.Name, "", given)
		} else {
			f.Func(flag.Name, "", given)
		}
	}
	return f
}
