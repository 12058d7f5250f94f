package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
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
  called is. What cannot be had is said, and left out; index.json lists what is there
  and what is not. An interrupt ends it early.

  Without ACLs, profiles and the machine are told where enable_debug is set; with
  them, to a management token.

Options:

  -duration=TIME  For how long; 5m.
  -interval=TIME  How often it is asked what there is; 30s.
  -event-topic=TOPIC[:KEY],...
                  Events that are taken, as "Allocation,Job:web" or "*:*"; none. They
                  have the jobs, allocations and nodes that they are about in them.
  -event-index=INDEX
                  From which on; 0.
  -log-lookback=TIME
                  What systemd's journal has of the agent since so long ago, too.
  -log-file-export
                  Is refused: the agent has no log file of its own.
  -log-level=LEVEL
                  Of the log: trace, debug, info, warn or error; TRACE.
  -log-include-location
                  Where in the code each line is written; true.
  -pprof-duration=TIME
                  For how long profiles are measured; 1s, and at most -duration.
  -pprof-interval=TIME
                  How often; 30s.
  -max-nodes=N    Of how many nodes: there is one.
  -node-class=CLASS
                  Only of a node of this class.
  -node-id=NODE   The node: there is one.
  -server-id=NAME The server: there is one.
  -stale          Changes nothing: there is one server.
  -output=DIR     Make a directory in DIR, and no archive.` + commonOptions
}

// debugging is one run of the command.
type debugging struct {
	meta
	client *nomad.Client
	dir    *os.Root // what is gathered goes there
	node   *nomad.NodeListStub
	flags  debugFlags
	mu     sync.Mutex // over what is said of files, and over what there is
	index  debugIndex
}

type debugFlags struct {
	duration, interval, pprofDuration, pprofInterval, lookback time.Duration
	logLevel, nodeID, serverID, nodeClass, eventTopic, output  string
	eventIndex                                                 uint64
	maxNodes                                                   int
	location, verbose, logFile                                 bool
}

// Run implements [subcommand].
func (c *operatorDebugCommand) Run(args []string) int {
	f := c.flags("operator debug")
	d := &debugging{meta: c.meta, index: debugIndex{LeftOut: []leftOut{}}}
	f.DurationVar(&d.flags.duration, "duration", 5*time.Minute, "")
	f.DurationVar(&d.flags.interval, "interval", 30*time.Second, "")
	f.DurationVar(&d.flags.pprofDuration, "pprof-duration", time.Second, "")
	f.DurationVar(&d.flags.pprofInterval, "pprof-interval", 30*time.Second, "")
	f.StringVar(&d.flags.eventTopic, "event-topic", "none", "")
	f.Uint64Var(&d.flags.eventIndex, "event-index", 0, "")
	f.DurationVar(&d.flags.lookback, "log-lookback", 0, "")
	f.BoolVar(&d.flags.logFile, "log-file-export", false, "")
	f.StringVar(&d.flags.logLevel, "log-level", "TRACE", "")
	f.BoolVar(&d.flags.location, "log-include-location", true, "")
	f.IntVar(&d.flags.maxNodes, "max-nodes", 10, "")
	f.StringVar(&d.flags.nodeClass, "node-class", "", "")
	f.StringVar(&d.flags.nodeID, "node-id", "all", "")
	f.StringVar(&d.flags.serverID, "server-id", "all", "")
	f.Bool("stale", false, "")
	f.StringVar(&d.flags.output, "output", "", "")
	if d.client = c.connect(f, args, 0, 0, c.Help()); d.client == nil {
		return 1
	}
	d.flags.verbose = *f.verbose
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
	switch {
	case d.flags.maxNodes < 0:
		return fmt.Errorf("-max-nodes: %d is less than 0", d.flags.maxNodes)
	case d.flags.lookback < 0:
		return fmt.Errorf("-log-lookback: %s is less than 0", d.flags.lookback)
	case d.flags.logFile:
		return errors.New("-log-file-export: the agent has no log file of its own: -log-lookback reads systemd's journal")
	}
	d.flags.pprofDuration = min(d.flags.pprofDuration, d.flags.duration)
	return d.checkNode()
}

func (d *debugging) checkNode() error {
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
	if class := d.flags.nodeClass; class != "" && class != d.node.NodeClass {
		return fmt.Errorf("-node-class: the node is of the class %q", d.node.NodeClass)
	}
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
	if err := d.writeIndex(); err != nil {
		return err
	}
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
	all.Go(func() { d.events(ctx) })
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

// events takes what is told of changes until the time is over. Its answer ends with it.
func (d *debugging) events(ctx context.Context) {
	if d.flags.eventTopic == "none" || d.flags.eventTopic == "" {
		return
	}
	asked := url.Values{"topic": strings.Split(d.flags.eventTopic, ","), "namespace": {"*"}}
	if d.flags.eventIndex > 0 {
		asked.Set("index", strconv.FormatUint(d.flags.eventIndex, 10))
	}
	d.take(ctx, filepath.Join("cluster", "eventstream.json"), "/v1/event/stream?"+asked.Encode(), nil)
}

// of is the name of a file about the node.
func (d *debugging) of(name string) string { return filepath.Join("client", d.node.ID, name) }

// once takes what does not change.
func (d *debugging) once(ctx context.Context) {
	d.take(ctx, d.of("agent-host.json"), "/v1/agent/host", map[string]string{"node_id": d.node.ID})
	if d.flags.lookback > 0 {
		d.take(ctx, d.of("monitor_export.log"), "/v1/agent/monitor/export", map[string]string{
			"service_name": "wasmnode", "logs_since": d.flags.lookback.String(), "plain": "true", "node_id": d.node.ID,
		})
	}
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
		"operator-scheduler": "/v1/operator/scheduler/configuration", "operator-schedulers": "/v1/agent/schedulers",
		"node-pools": "/v1/node/pools", "services": "/v1/services", "scaling-policies": "/v1/scaling/policies", "unclaimed": "/v1/operator/unclaimed",
		"host-volumes": "/v1/volumes?type=host", "csi-volumes": "/v1/volumes?type=csi", "csi-plugins": "/v1/plugins?type=csi",
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
		{"goroutine-debug1_%04d.txt", "goroutine", map[string]string{"debug": "1"}},
		{"goroutine_%04d.prof", "goroutine", nil},
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
