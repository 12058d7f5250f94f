package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/controlplane/snapshot"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// clientFile is the file of the node's state, in the data directory.
const clientFile = "client.db"

// openFiles opens what has to survive: the node's state and the control plane's.
func (a *agent) openFiles() (err error) {
	client, server := filepath.Join(a.cfg.DataDir, clientFile), filepath.Join(a.cfg.DataDir, "server.db")
	sweep(a.cfg.DataDir)
	// What runs belongs to an agent, also to one that can only look on; a first start has
	// nothing to go on with.
	if err := writable(a.cfg.DataDir); (boltfile.IsFull(err) || errors.Is(err, unix.EROFS)) && begun(client) && begun(server) {
		a.diskIs(err)
	} else if err != nil {
		return fmt.Errorf("data_dir: %w: choose another with -data-dir", err)
	}
	a.openTraces()
	key := a.openKey()
	if a.state, err = state.Open(client, state.Options{SetAside: true, Recovered: a.recovered(false), Key: key, Logger: a.logger}); err != nil {
		return err
	}
	a.closing("state", a.state.Close)
	if a.plane, err = standalone.Open(standalone.Options{
		Path: server, SetAside: true, Recovered: a.recovered(true), Logger: a.logger.Named("controlplane"), GroupFaults: alloc.Faults,
		Traces:      a.traces,
		Limits:      keep(a.cfg.Server),
		ACL:         a.cfg.Access.ACL,
		TokenTTL:    standalone.TokenTTL{Least: a.cfg.Access.TokenLeastTTL, Most: a.cfg.Access.TokenMostTTL},
		Issuer:      a.cfg.Server.OIDCIssuer,
		EventBuffer: a.cfg.Server.EventBufferSize,
		Scheduler:   scheduler(a.cfg.Server.Scheduler),
		ACLReset:    filepath.Join(a.cfg.DataDir, "server", "acl-bootstrap-reset"), // as with Nomad
	}); err != nil {
		return err
	}
	a.closing("control plane", a.plane.Close)
	if n := a.plane.Unreadable(); n > 0 {
		a.conditions.set(structs.Condition{
			Name: "unreadable rows", Server: true,
			Text:   fmt.Sprintf("%s: %d stored rows could not be read and are left out: the log names them", server, n),
			Remedy: "run again what the log names, or type: wasmnode operator snapshot restore FILE",
		})
	}
	if lost := a.plane.LostKeys(); len(lost) > 0 {
		a.conditions.set(structs.Condition{Name: "root keys", Server: true, Text: lostKeys(len(lost)), Remedy: "put the files that the log names back from a backup of the data directory, and restart the agent"})
	}
	return a.join()
}

// lostKeys is what anybody may know of root keys that cannot be read: the log has the rest.
func lostKeys(n int) string {
	return fmt.Sprintf("%d root keys of variables cannot be read: the log says which, and what to do", n)
}

// keep is how long the control plane keeps what has ended.
func keep(s config.Server) standalone.Limits {
	return standalone.Limits{
		Interval: s.JobGCInterval, Jobs: s.JobGCThreshold, Evaluations: s.EvalGCThreshold, BatchEvaluations: s.BatchEvalGCThreshold,
		Deployments: s.DeploymentGCThreshold, Nodes: s.NodeGCThreshold, Size: int64(s.GCMaxSize) << 20,
	}
}

// scheduler is how the scheduler decides as long as nobody sets that otherwise.
func scheduler(s config.Scheduler) *nomad.SchedulerConfiguration {
	return &nomad.SchedulerConfiguration{
		SchedulerAlgorithm:            nomad.SchedulerAlgorithm(s.Algorithm),
		MemoryOversubscriptionEnabled: s.Oversubscription,
		RejectJobRegistration:         s.RejectJobs,
		PauseEvalBroker:               s.PauseEvaluations,
		PreemptionConfig: nomad.PreemptionConfig{
			SystemSchedulerEnabled: s.Preemption.System, SysBatchSchedulerEnabled: s.Preemption.Sysbatch,
			BatchSchedulerEnabled: s.Preemption.Batch, ServiceSchedulerEnabled: s.Preemption.Service,
		},
	}
}

// recovered has the operator know what became of a damaged file.
func (a *agent) recovered(server bool) func(boltfile.Recovery) {
	return func(r boltfile.Recovery) {
		a.conditions.set(structs.Condition{Name: filepath.Base(r.Path), Server: server, Text: r.Path + ": " + r.String(), Remedy: remedyOf(r, server)})
	}
}

// remedyOf is what to do about a file that was damaged or lost.
func remedyOf(r boltfile.Recovery, server bool) string {
	const look = "look whether what runs is what should: wasmnode job status, and wasmnode node status -self"
	if server && r.Copied.IsZero() {
		return look + "; a snapshot brings the rest back: wasmnode operator snapshot restore FILE"
	}
	return look
}

// planeAPI is the control plane as the HTTP API needs it.
type planeAPI struct {
	*standalone.ControlPlane
	conditions *conditions
}

// RestoreSnapshot implements httpapi.ControlPlane, and has the operator know what is still
// to be done.
func (p planeAPI) RestoreSnapshot(r io.Reader) error {
	err := p.ControlPlane.RestoreSnapshot(r)
	if err == nil {
		p.conditions.set(structs.Condition{
			Name: "snapshot", Server: true,
			Text:   "a restored snapshot takes the place of the control plane's state when the agent is started again: restart it",
			Remedy: "restart the agent, under systemd by: systemctl restart wasmnode",
		})
	}
	return err
}

// InspectSnapshot reads and checks a whole snapshot of a control plane.
func InspectSnapshot(r io.Reader) (*snapshot.Meta, error) { return standalone.InspectSnapshot(r) }

// begun reports whether there is something in a file.
func begun(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// The disk is looked at this often, with so much that there has to be room for.
const (
	diskTick  = 5 * time.Second
	diskProbe = 64 << 10
)

// watchDisk has the operator know whether anything can be stored, until ctx is done.
func (a *agent) watchDisk(ctx context.Context) {
	tick := time.NewTicker(diskTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.diskIs(writable(a.cfg.DataDir))
		case <-ctx.Done():
			return
		}
	}
}

// diskIs tells a change of what keeps the disk from being written to; nil: nothing does.
func (a *agent) diskIs(err error) {
	const name = "disk"
	was := a.conditions.has(name)
	if err == nil {
		a.conditions.clear(name)
		if was {
			a.logger.Info("the disk can be written to again: changes are stored", "data_dir", a.cfg.DataDir)
			a.node.UpdateDisk()
		}
		return
	}
	what := "the disk cannot be written to"
	if boltfile.IsFull(err) {
		what = "the disk is full"
	}
	a.conditions.set(structs.Condition{
		Name: name, Unhealthy: true,
		Text:   fmt.Sprintf("%s: %s: what runs goes on, and changes are refused until that is over", what, err),
		Remedy: "make room on the file system of " + a.cfg.DataDir + ", or have it writable; wasmnode system gc removes what has ended",
	})
	if !was {
		a.logger.Error(what+": what runs goes on, and changes are refused until that is over", "data_dir", a.cfg.DataDir, "error", err)
	}
}

// sweep removes what agents have left in the data directory that were killed while they wrote a file
// there, or looked at the disk.
func sweep(dir string) {
	_, _ = durable.Sweep(dir, func(string) bool { return true }) // the next write of the file, or start, tries again
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // whoever opens it next says so
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), probePrefix) && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next start tries again
		}
	}
}

// probePrefix begins the names of the files that the disk is tried with.
const probePrefix = ".probe-"

// writable makes a directory and proves that files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, probePrefix+"*")
	if err != nil {
		return fmt.Errorf("%s: %w", dir, errors.Unwrap(err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, diskProbe)); err != nil {
		return fmt.Errorf("%s: %w", dir, errors.Unwrap(err))
	}
	return nil
}
