package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type operatorDebugCommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorDebugCommand) Synopsis() string { return "Gather what tells how the node is" }

// Help implements [subcommand].
func (*operatorDebugCommand) Help() string {
	return `Usage: wasmnode operator debug [options]

  Watches the node for a while and makes an archive for who is to find out what is
  wrong: its log, metrics and profiles, lists of what there is, and what machine it
  is. No tokens are in it, and no job files; what the agent logs and how things are
  called is. What cannot be had is said, and left out. An interrupt ends it early.

  Without ACLs, profiles and the machine are told where enable_debug is set; with
  them, to a management token.

Options:

  -duration=TIME  For how long; 5m.
  -interval=TIME  How often it is asked what there is; 30s.
  -log-level=LEVEL
                  Of the log: trace, debug, info, warn or error; TRACE.
  -log-include-location
                  Where in the code each line is written; true.
  -pprof-duration=TIME
                  For how long profiles are measured; 1s, and at most -duration.
  -pprof-interval=TIME
                  How often; 30s.
  -node-id=NODE   The node: there is one.
  -server-id=NAME The server: there is one.
  -output=DIR     Make a directory in DIR, and no archive.` + commonOptions
}

// debugging is one run of the command.
type debugging struct {
	meta
	client *nomad.Client
	dir    *os.Root // what is gathered goes there
	node   *nomad.NodeListStub
	flags  debugFlags
	failed sync.Mutex // held for the lines that say what cannot be had
}

type debugFlags struct {
	duration, interval, pprofDuration, pprofInterval time.Duration
	logLevel, nodeID, serverID, output               string
	location                                         bool
}

// Run implements [subcommand].
func (c *operatorDebugCommand) Run(args []string) int {
	f := c.flags("operator debug")
	d := &debugging{meta: c.meta}
	f.DurationVar(&d.flags.duration, "duration", 5*time.Minute, "")
	f.DurationVar(&d.flags.interval, "interval", 30*time.Second, "")
	f.DurationVar(&d.flags.pprofDuration, "pprof-duration", time.Second, "")
	f.DurationVar(&d.flags.pprofInterval, "pprof-interval", 30*time.Second, "")
	f.StringVar(&d.flags.logLevel, "log-level", "TRACE", "")
	f.BoolVar(&d.flags.location, "log-include-location", true, "")
	f.StringVar(&d.flags.nodeID, "node-id", "all", "")
	f.StringVar(&d.flags.serverID, "server-id", "all", "")
	f.StringVar(&d.flags.output, "output", "", "")
	if d.client = c.connect(f, args, 0, 0, c.Help()); d.client == nil {
		return 1
	}
	if *f.json {
		return c.fail(f, errors.New("-json and -t: what there is goes into an archive"))
	}
	if err := d.run(); err != nil {
		return c.fail(f, err)
	}
	return 0
}

// check refuses what cannot be done, before anything is made.
func (d *debugging) check() error {
	if d.flags.interval <= 0 || d.flags.pprofInterval <= 0 || d.flags.pprofDuration <= 0 || d.flags.interval > d.flags.duration {
		return errors.New("-interval, -pprof-interval and -pprof-duration are more than 0, and -interval is at most -duration")
	}
	d.flags.pprofDuration = min(d.flags.pprofDuration, d.flags.duration)
	id := d.flags.nodeID
	if id == "all" {
		id = ""
	}
	nodes, _, err := d.client.Nodes().List(&nomad.QueryOptions{Prefix: id})
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return fmt.Errorf("-node-id: no node has an ID that begins with %q", id)
	}
	d.node = nodes[0]
	return d.checkServer()
}

func (d *debugging) checkServer() error {
	if d.flags.serverID == "all" || d.flags.serverID == "leader" {
		return nil
	}
	servers, err := d.client.Agent().Members()
	if err != nil {
		return err
	}
	for _, s := range servers.Members {
		if s.Name == d.flags.serverID {
			return nil
		}
	}
	return fmt.Errorf("-server-id: unknown server %s", d.flags.serverID)
}

func (d *debugging) run() error {
	if err := d.check(); err != nil {
		return err
	}
	name := "wasmnode-debug-" + time.Now().UTC().Format("2006-01-02-150405Z")
	parent := d.flags.output
	if parent == "" {
		temporary, err := os.MkdirTemp("", "wasmnode-debug-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		parent = temporary
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	var err error
	if d.dir, err = os.OpenRoot(path); err != nil {
		return err
	}
	defer d.dir.Close()
	d.ui.Output(fmt.Sprintf("Watching node %s for %s, every %s", d.node.ID, d.flags.duration, d.flags.interval))
	d.gather()
	if d.flags.output != "" {
		d.ui.Output("Created debug directory: " + path)
		return nil
	}
	if err := archive(parent, name); err != nil {
		return err
	}
	d.ui.Output("Created debug archive: " + name + ".tar.gz")
	return nil
}

// gather asks again and again until the time is over, or it is interrupted.
func (d *debugging) gather() {
	ctx, cancel := context.WithTimeout(context.Background(), d.flags.duration)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { d.log(ctx) })
	d.once(ctx)
	all.Go(func() { repeat(ctx, d.flags.pprofInterval, func(n int) { d.profiles(ctx, n) }) })
	repeat(ctx, d.flags.interval, func(n int) { d.interval(ctx, n) })
}

// repeat calls a function at once and then at each interval, with its number.
func repeat(ctx context.Context, interval time.Duration, call func(n int)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		call(n)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// log takes what is logged until the time is over. Its answer ends with it.
func (d *debugging) log(ctx context.Context) {
	d.take(ctx, d.of("monitor.log"), "/v1/agent/monitor", map[string]string{
		"log_level": d.flags.logLevel, "log_include_location": strconv.FormatBool(d.flags.location), "plain": "true", "node_id": d.node.ID,
	})
}

// of is the name of a file about the node.
func (d *debugging) of(name string) string { return filepath.Join("client", d.node.ID, name) }

// once takes what does not change.
func (d *debugging) once(ctx context.Context) {
	d.take(ctx, d.of("agent-host.json"), "/v1/agent/host", map[string]string{"node_id": d.node.ID})
	for name, path := range map[string]string{
		"agent-self": "/v1/agent/self", "members": "/v1/agent/members", "leader": "/v1/status/leader", "regions": "/v1/regions",
		"namespaces": "/v1/namespaces", "nodes": "/v1/nodes", "plugins": "/v1/agent/plugins",
	} {
		d.take(ctx, filepath.Join("cluster", name+".json"), path, nil)
	}
}

// interval takes what changes.
func (d *debugging) interval(ctx context.Context, n int) {
	for name, path := range map[string]string{
		"allocations": "/v1/allocations", "deployments": "/v1/deployments", "evaluations": "/v1/evaluations", "jobs": "/v1/jobs",
		"health": "/v1/agent/health", "metrics": "/v1/metrics", "nodes": "/v1/nodes", "node-stats": "/v1/client/stats",
		"operator-autopilot-health": "/v1/operator/autopilot/health", "operator-raft": "/v1/operator/raft/configuration",
		"operator-scheduler": "/v1/operator/scheduler/configuration",
	} {
		d.take(ctx, filepath.Join("interval", fmt.Sprintf("%04d", n), name+".json"), path, nil)
	}
}

// profiles takes what the agent itself is doing. The first that cannot be had ends it: so would
// the others.
func (d *debugging) profiles(ctx context.Context, n int) {
	seconds := strconv.FormatFloat(d.flags.pprofDuration.Seconds(), 'f', -1, 64)
	for _, p := range []struct {
		file, profile string
		params        map[string]string
	}{
		{"goroutine-debug2_%04d.txt", "goroutine", map[string]string{"debug": "2"}},
		{"heap_%04d.prof", "heap", nil},
		{"threadcreate_%04d.prof", "threadcreate", nil},
		{"profile_%04d.prof", "profile", map[string]string{"seconds": strconv.Itoa(max(1, int(d.flags.pprofDuration.Seconds())))}},
		{"trace_%04d.prof", "trace", map[string]string{"seconds": seconds}},
	} {
		if !d.take(ctx, d.of(fmt.Sprintf(p.file, n)), "/v1/agent/pprof/"+p.profile, p.params) {
			return
		}
	}
}
