package alloc_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// Each file under testdata is a story: a job file, what happens (one command a line), and
// the transcript: after each command the events that it brought, per task, with their
// time since the beginning, and the allocation's status when it changed.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			parts := map[string]string{}
			for _, part := range archive.Files {
				parts[part.Name] = string(part.Data)
			}
			bubble(t, func(t *testing.T) {
				got := play(t, parts["job.hcl"], parts["script"])
				if !*update || onPlugin(t) {
					require.Equal(t, parts["transcript"], got)
					return
				}
				parts["transcript"] = got
				archive.Files = append(archive.Files[:2], txtar.File{Name: "transcript", Data: []byte(got)})
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
			})
		})
	}
}

// player plays a script.
type player struct {
	*fixture
	out      bytes.Buffer
	begun    time.Time
	reported map[string]bool // the events that were reported
	status   string
	ports    map[string]net.Listener // by label; absent: nobody listens
}

func play(t *testing.T, job, script string) string {
	s := &player{fixture: newFixture(t, job), begun: time.Now(), reported: map[string]bool{}, ports: map[string]net.Listener{}}
	for line := range strings.Lines(script) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		fmt.Fprintf(&s.out, "> %s\n", strings.Join(fields, " "))
		if err := s.do(fields[0], fields[1:]); err != nil {
			fmt.Fprintf(&s.out, "error: %v\n", err)
		}
		synctest.Wait()
		s.reportNew()
	}
	s.finish()
	for label := range s.ports {
		require.NoError(t, s.unlisten(label))
	}
	return strings.NewReplacer(s.dir, "$ALLOCS", loopback(), "$HOST").Replace(s.out.String())
}

// loopback is an address of this machine's that no other process uses: nobody else
// listens, or connects from, the ports of a transcript.
func loopback() string { return fmt.Sprintf("127.%d.%d.1", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff) }

// firstPort is below those that nodes, of other tests too, give to allocations, on which
// one may listen at all addresses, and below those that connections come from.
const firstPort = 10001

// givePort gives the allocation a port on which nobody listens.
func (s *player) givePort(label string) {
	ports := &s.alloc.Resources.Ports
	*ports = append(*ports, structs.AllocatedPort{Label: label, HostIP: loopback(), Value: firstPort + len(*ports)})
}

// listen makes somebody listen on a port of the allocation's, who never answers.
func (s *player) listen(label string) error {
	for _, p := range s.alloc.Resources.Ports {
		if p.Label != label {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value)))
		if err == nil {
			s.ports[label] = l
		}
		return err
	}
	return fmt.Errorf("no port %q", label)
}

func (s *player) unlisten(label string) error {
	defer delete(s.ports, label)
	return s.ports[label].Close()
}

// reportChecks writes what the checks found last.
func (s *player) reportChecks() {
	results := slices.Collect(maps.Values(s.r.CheckResults()))
	slices.SortFunc(results, func(a, b structs.CheckResult) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Check, b.Check))
	})
	for _, c := range results {
		fmt.Fprintf(&s.out, "%s %s %q (%s): %s: %s\n", c.Task, c.Service, c.Check, c.Mode, c.Status, c.Output)
	}
}

func (s *player) do(command string, args []string) error {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch command {
	case "run":
		s.start()
	case "wait":
		d, err := time.ParseDuration(arg(0))
		if err != nil {
			return err
		}
		time.Sleep(d)
	case "exit": // TASK CODE
		code, _ := strconv.Atoi(arg(1))
		if !s.world.Exit(arg(0), structs.ExitResult{ExitCode: code}) {
			return fmt.Errorf("task %q does not run", arg(0))
		}
	case "stop":
		s.stop()
	case "no-shutdown-delay": // whenever it stops, or while it does
		s.change(func(a *structs.Allocation) { a.NoShutdownDelay = true })
	case "evict":
		s.change(func(a *structs.Allocation) { a.DesiredStatus = structs.DesiredEvict })
	case "deploy": // the allocation is part of a deployment
		s.alloc.DeploymentID = "deployment-1"
	case "restart": // TASK, running or all
		switch arg(0) {
		case "all":
			return s.r.RestartAll("User requested all tasks to restart")
		case "running":
			return s.r.RestartRunning("User requested running tasks to restart")
		}
		return s.r.RestartTask(arg(0), "User requested task to restart")
	case "signal": // SIGNAL [TASK]
		return s.r.Signal(context.Background(), arg(1), arg(0), "")
	case "agent-restart":
		s.restartAgent()
	case "reboot": // everything that runs is gone, and so is the agent for a moment
		s.r.Shutdown()
		<-s.r.ShutdownCh()
		s.world.Lose()
		s.restartAgentFrom()
	case "upgrade":
		s.world.Upgrade()
	case "driver-missing":
		s.world.Missing(abi.NewRecoverableError(abi.Unavailable, `driver "mock" is loading`))
	case "driver-there":
		s.world.Missing(nil)
	case "previous": // the allocation has to wait for another one
		s.watch = &previous{ended: make(chan struct{})}
	case "previous-with-disk":
		s.watch = &previous{ended: make(chan struct{}), migrate: s.moveDisk}
	case "previous-ends":
		close(s.watch.(*previous).ended)
	case "broken-dir": // the allocation's directory cannot be built
		return os.WriteFile(filepath.Join(s.dir, s.alloc.ID), nil, 0o600)
	case "mend-dir":
		return os.Remove(filepath.Join(s.dir, s.alloc.ID))
	case "port": // LABEL
		s.givePort(arg(0))
	case "listen": // LABEL
		return s.listen(arg(0))
	case "unlisten": // LABEL
		return s.unlisten(arg(0))
	case "checks":
		s.reportChecks()
	case "write": // FILE TEXT, of the allocation's
		path := filepath.Join(s.dir, s.alloc.ID, arg(0))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(arg(1)), 0o600)
	case "cat": // a file of the allocation's
		data, err := os.ReadFile(filepath.Join(s.dir, s.alloc.ID, arg(0)))
		if err == nil {
			fmt.Fprintf(&s.out, "%s\n", data)
		}
		return err
	case "device-hangs": // TASK is given a device whose plugin does not answer
		s.alloc.Resources.Tasks[arg(0)].Devices = []structs.AllocatedDevice{{Vendor: "acme", Type: "gpu", Name: "one", DeviceIDs: []string{"0"}}}
		s.devices = silentDevices{}
	case "destroy":
		s.r.Destroy()
		<-s.r.DestroyCh()
	default:
		return fmt.Errorf("unknown command")
	}
	return nil
}

// silentDevices never answers a reservation.
type silentDevices struct{}

func (silentDevices) Reserve(ctx context.Context, _ structs.AllocatedDevice, _ structs.DeviceUser) (*structs.DeviceReservation, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentDevices) Release(context.Context, structs.AllocatedDevice, structs.DeviceUser) error {
	return nil
}

func (s *player) restartAgentFrom() {
	s.build()
	if err := s.r.Restore(); err != nil {
		s.t.Fatal(err)
	}
	go s.r.Run()
}

// moveDisk moves the disk of an allocation that ended before.
func (s *player) moveDisk(to *allocdir.Dir, tasks []string) error {
	from := allocdir.New(s.dir, "alloc-0")
	if err := from.Build(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(from.Data(), "kept"), []byte("from before"), 0o600); err != nil {
		return err
	}
	return to.Move(from, tasks)
}

// reportNew writes what is new since the last time.
func (s *player) reportNew() {
	if s.r == nil {
		return
	}
	state := s.r.AllocState()
	for _, task := range s.group().Tasks {
		for _, e := range state.TaskStates[task.Name].Events {
			line := fmt.Sprintf("%8s  %s  %s: %s\n", time.Unix(0, e.Time).Sub(s.begun), task.Name, e.Type, e.DisplayMessage)
			if !s.reported[line] {
				s.reported[line] = true
				s.out.WriteString(line)
			}
		}
	}
	status := fmt.Sprintf("%s: %s", state.ClientStatus, state.ClientDescription)
	if d := state.DeploymentStatus; d != nil && d.Healthy != nil {
		status += fmt.Sprintf(" (healthy: %v)", *d.Healthy)
	}
	if status != s.status {
		s.status = status
		fmt.Fprintf(&s.out, "%8s  = %s\n", time.Since(s.begun), status)
	}
}
