package task_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

func TestTheDriverGetsTheTasksLimits(t *testing.T) {
	for name, c := range map[string]struct {
		resources structs.TaskResources
		want      *wasmnodev1.Resources
	}{
		"memory alone":        {structs.TaskResources{CPUMHz: 100, MemoryMB: 64}, &wasmnodev1.Resources{CpuMhz: 100, MemoryBytes: 64 << 20}},
		"memory and its most": {structs.TaskResources{CPUMHz: 5, MemoryMB: 64, MemoryMaxMB: 128}, &wasmnodev1.Resources{CpuMhz: 5, MemoryBytes: 64 << 20, MemoryMaxBytes: 128 << 20}},
		"all that there is":   {structs.TaskResources{MemoryMB: 64, MemoryMaxMB: structs.MemoryUnlimited}, &wasmnodev1.Resources{MemoryBytes: 64 << 20, MemoryMaxBytes: 2048 << 20}},
		"cores":               {structs.TaskResources{CPUMHz: 9, MemoryMB: 1, Cores: []int{2, 5}}, &wasmnodev1.Resources{CpuMhz: 9, MemoryBytes: 1 << 20, Cores: []uint32{2, 5}, Cpuset: "2,5"}},
		"nonsense is nothing": {structs.TaskResources{CPUMHz: -1, MemoryMB: -1, MemoryMaxMB: -5}, &wasmnodev1.Resources{}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.alloc.Resources.Tasks["web"] = &c.resources
				f.start()
				synctest.Wait()
				require.True(t, c.want.EqualVT(f.config().GetResources()), "%v", f.config().GetResources())
				f.finish()
			})
		})
	}
}

func TestTheDriversConfigIsInterpolated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"args": []any{
			"${NOMAD_META_owner}", "${env[\"COLOR\"]}", "${node.unique.name}", "${NOMAD_TASK_NAME}", "${NOMAD_ALLOC_INDEX}", "${unknown}", 7,
		}})
		f.alloc.Job.Name = ptr("the job")
		f.task.Meta = map[string]string{"owner": "ann"}
		f.task.Env = map[string]string{"COLOR": "blue ${NOMAD_META_owner}"}
		f.task.User = "${NOMAD_META_owner}"
		f.start()
		synctest.Wait()
		var config struct{ Args []any }
		require.NoError(t, json.Unmarshal(f.config().GetDriverConfig(), &config))
		require.Equal(t, []any{"ann", "blue ann", "node", "web", "0", "${unknown}", 7.0}, config.Args)
		require.Equal(t, "blue ann", f.config().GetEnv()["COLOR"])
		require.Equal(t, "ann", f.config().GetUser())
		require.Equal(t, []string{"job", "the job", "", "g", "default", "web", "a1", "n1", "node"}, []string{
			f.config().GetJobId(), f.config().GetJobName(), f.config().GetParentJobId(), f.config().GetTaskGroupName(),
			f.config().GetNamespace(), f.config().GetName(), f.config().GetAllocId(), f.config().GetNodeId(), f.config().GetNodeName(),
		})
		f.finish()
	})
}

func TestATaskThatIsNotIsolatedGetsTheHostsPaths(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		dir, err := f.dir.Task("web")
		require.NoError(t, err)
		env := f.config().GetEnv()
		require.Equal(t, f.dir.Shared(), env["NOMAD_ALLOC_DIR"])
		require.Equal(t, dir.Local, env["NOMAD_TASK_DIR"])
		require.Equal(t, dir.Secrets, env["NOMAD_SECRETS_DIR"])
		require.DirExists(t, env["NOMAD_TASK_DIR"])
		f.finish()
	})
}

// isolated is a driver with another isolation, whose tasks may be no processes.
type isolated struct {
	task.Driver
	isolation   wasmnodev1.FilesystemIsolation
	noProcesses bool
}

func (d isolated) RunsProcesses() bool { return !d.noProcesses }

func (d isolated) Capabilities() *wasmnodev1.DriverCapabilities {
	return &wasmnodev1.DriverCapabilities{SendSignals: true, Exec: true, FilesystemIsolation: d.isolation}
}

func TestProcessesHaveTheMachinesEnvironment(t *testing.T) {
	const none, chroot, image = wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_NONE,
		wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_CHROOT, wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_IMAGE
	host := map[string]string{"HOME": "/root", "USER": "root", "LOGNAME": "root", "LANG": "C", "COLOR": "blue"}
	for name, c := range map[string]struct {
		user   string
		driver isolated
		want   map[string]string
	}{
		"as the agent":          {"", isolated{isolation: none}, host},
		"as another user":       {"nobody", isolated{isolation: none}, map[string]string{"LANG": "C", "COLOR": "blue"}},
		"in a root of its own":  {"", isolated{isolation: chroot}, map[string]string{"LANG": "C", "COLOR": "blue"}},
		"in an image":           {"", isolated{isolation: image}, nil},
		"of a driver with none": {"", isolated{isolation: none, noProcesses: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.cfg.HostEnv = host
				f.task.User = c.user
				f.task.Env = map[string]string{"COLOR": "${COLOR}-ish", "OWN": "x"}
				f.as = func(d task.Driver) task.Driver {
					c.driver.Driver = d
					return c.driver
				}
				f.start()
				synctest.Wait()
				env := f.config().GetEnv()
				for name := range host {
					if name == "COLOR" {
						continue
					}
					require.Equal(t, c.want[name], env[name], name)
				}
				if c.want != nil {
					require.Equal(t, "blue-ish", env["COLOR"], "the task's own wins, and may refer to it")
				}
				require.Equal(t, "x", env["OWN"])
				f.finish()
			})
		})
	}
}

// A task that is to have a network of its own is not started in the node's.
func TestANetworkThatTheDriverCannotUse(t *testing.T) {
	for _, able := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.cfg.Network = func() *structs.AllocNetwork {
				return &structs.AllocNetwork{Mode: "bridge", Namespace: "/run/netns/a", Interface: "eth0", AddressIPv6: "fd00::2"}
			}
			if !able {
				f.as = func(d task.Driver) task.Driver { return isolated{Driver: d} }
			}
			f.start()
			synctest.Wait()
			if able {
				want := &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: "/run/netns/a", Interface: "eth0", Ip: "fd00::2"}
				require.True(t, want.EqualVT(f.config().GetNetwork()), "%v", f.config().GetNetwork())
			} else {
				require.Equal(t, []string{
					received, setup,
					`Failed Validation: driver "mock" cannot run tasks in a network of mode "bridge": it describes no network_namespaces`,
					"Not Restarting: Error was unrecoverable",
				}, f.events())
			}
			f.finish()
		})
	}
}

func TestEachRunHasAnIDOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		seen := map[string]bool{}
		for range 5 {
			synctest.Wait()
			require.Regexp(t, regexp.MustCompile(`^a1/web/[0-9a-f]{8}$`), f.config().GetId())
			seen[f.config().GetId()] = true
			require.NoError(t, f.r.Restart(task.RestartRequest{}))
		}
		require.Len(t, seen, 5)
		f.finish()
	})
}

func TestAnUpdateIsInForceFromTheNextStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		next := f.alloc.Copy()
		job, group, changed := *next.Job, *next.Job.TaskGroups[0], *f.task
		changed.Env = map[string]string{"COLOR": "red"}
		group.Tasks = append(group.Tasks[:0:0], &changed)
		job.TaskGroups = append(job.TaskGroups[:0:0], &group)
		next.Job = &job
		next.Resources.Tasks = map[string]*structs.TaskResources{"web": {CPUMHz: 200, MemoryMB: 64}}
		f.r.Update(next)
		synctest.Wait()
		require.EqualValues(t, 100, f.config().GetResources().GetCpuMhz(), "the run goes on as it is")
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		require.EqualValues(t, 200, f.config().GetResources().GetCpuMhz())
		require.Equal(t, "red", f.config().GetEnv()["COLOR"])
		f.finish()
	})
}

func TestTheExitOfAStoppedTaskIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"kill_after": "1h", "stop_exit_code": 137, "stop_exit_signal": 9}) // longer than the kill timeout
		f.start()
		synctest.Wait()
		at := time.Now()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, 5*time.Second, time.Since(at))
		require.Equal(t, []string{received, setup, begun, killing, "Terminated: Exit Code: 137, Signal: 9", killed}, f.events())
		require.False(t, f.r.State().Failed, "whatever its exit, it was killed")
		f.finish()
	})
}

func TestTheDriverGetsTheLimitsOfTheLogs(t *testing.T) {
	for name, c := range map[string]struct {
		logs *nomad.LogConfig
		want *wasmnodev1.LogConfig
	}{
		"nothing said": {nil, &wasmnodev1.LogConfig{MaxFiles: 10, MaxFileSizeBytes: 10 << 20}},
		"bounds":       {&nomad.LogConfig{MaxFiles: ptr(2), MaxFileSizeMB: ptr(3)}, &wasmnodev1.LogConfig{MaxFiles: 2, MaxFileSizeBytes: 3 << 20}},
		"none":         {&nomad.LogConfig{Disabled: ptr(true)}, &wasmnodev1.LogConfig{Disabled: true, MaxFiles: 10, MaxFileSizeBytes: 10 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.task.LogConfig = c.logs
				f.start()
				synctest.Wait()
				require.True(t, c.want.EqualVT(f.config().GetLog()), "%v", f.config().GetLog())
				require.Equal(t, f.dir.Logs()+"/web.stdout", f.config().GetStdoutPath())
				require.Equal(t, f.dir.Logs()+"/web.stderr", f.config().GetStderrPath())
				f.finish()
			})
		})
	}
}
