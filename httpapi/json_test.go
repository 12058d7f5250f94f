package httpapi_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestAnswersHaveNomadsFields names what Nomad's command line needs in an answer: it
// panics or fails where one of these is missing or null.
func TestAnswersHaveNomadsFields(t *testing.T) {
	w := newWorld(t, "mock")
	a := w.run(t, mock("fields", nil), nomad.AllocClientStatusRunning)
	for path, fields := range map[string]string{
		"/v1/agent/self":                           "stats.client.node_id config.UI.ShowCLIHints config.Region config.Datacenter config.Version member.Name member.Tags",
		"/v1/agent/members":                        "ServerName ServerRegion ServerDC Members.0.Name Members.0.Addr Members.0.Status Members.0.Tags.build Members.0.Tags.dc",
		"/v1/agent/health":                         "client.ok server.ok",
		"/v1/nodes":                                "0.ID 0.Name 0.Datacenter 0.NodePool 0.NodeClass 0.Drain 0.SchedulingEligibility 0.Status 0.Address 0.Version",
		"/v1/node/" + a.NodeID:                     "ID HTTPAddr Drivers.mock_driver.Healthy Events.0.Message Attributes NodeResources.Cpu.CpuShares NodeResources.Memory.MemoryMB NodeResources.Disk.DiskMB ReservedResources.Cpu ReservedResources.Memory ReservedResources.Disk",
		"/v1/node/" + a.NodeID + "/allocations":    "0.ID 0.Job.ID 0.Resources.CPU 0.Resources.MemoryMB 0.Resources.DiskMB",
		"/v1/jobs":                                 "0.ID 0.Name 0.JobSummary.Namespace 0.JobSummary.Summary.group.Running 0.Type 0.Priority 0.Status 0.SubmitTime 0.Periodic 0.ParameterizedJob 0.Stop",
		"/v1/job/fields":                           "ID Name Namespace Type Priority Status SubmitTime Stop Version Stable Datacenters NodePool TaskGroups.0.Name TaskGroups.0.Count TaskGroups.0.Tasks.0.Name CreateIndex ModifyIndex JobModifyIndex",
		"/v1/job/fields/versions":                  "Versions.0.Version Versions.0.Stable Versions.0.SubmitTime Index KnownLeader",
		"/v1/evaluations/count":                    "Count Index KnownLeader",
		"/v1/job/fields/summary":                   "JobID Summary.group.Queued Summary.group.Starting Summary.group.Running Summary.group.Failed Summary.group.Complete Summary.group.Lost Summary.group.Unknown Children.Pending Children.Running Children.Dead",
		"/v1/job/fields/scale":                     "JobID TaskGroups.group.Desired TaskGroups.group.Placed TaskGroups.group.Running TaskGroups.group.Healthy TaskGroups.group.Unhealthy",
		"/v1/job/fields/allocations":               "0.ID 0.NodeID 0.TaskGroup 0.JobVersion 0.DesiredStatus 0.ClientStatus 0.CreateTime 0.ModifyTime 0.CreateIndex 0.TaskStates.task.State",
		"/v1/job/fields/evaluations":               "0.ID 0.Status 0.TriggeredBy",
		"/v1/allocations":                          "0.ID 0.JobType 0.NodeName 0.EvalID",
		"/v1/allocation/" + a.ID:                   "ID TaskGroup Job.Version Job.TaskGroups.0.Name Job.TaskGroups.0.Tasks.0.Name Resources.CPU Resources.MemoryMB Resources.DiskMB TaskResources.task.CPU TaskResources.task.MemoryMB TaskResources.task.DiskMB Metrics EvalID Name NodeID NodeName JobID ClientStatus ClientDescription DesiredStatus CreateTime ModifyTime TaskStates.task.StartedAt TaskStates.task.Restarts TaskStates.task.Events.0.Type TaskStates.task.Events.0.Time TaskStates.task.Events.0.DisplayMessage AllocatedResources.Shared AllocatedResources.Tasks.task.Memory.MemoryMB",
		"/v1/evaluation/" + a.EvalID:               "ID Status JobID Type TriggeredBy Priority CreateTime ModifyTime CreateIndex ModifyIndex",
		"/v1/client/stats":                         "Memory.Total CPU.0 DiskStats Uptime CPUTicksConsumed Timestamp",
		"/v1/client/allocation/" + a.ID + "/stats": "ResourceUsage.CpuStats.Percent ResourceUsage.CpuStats.TotalTicks ResourceUsage.MemoryStats.RSS ResourceUsage.MemoryStats.Usage Tasks Timestamp",
		"/v1/client/fs/ls/" + a.ID + "?path=/":     "0.Name 0.IsDir 0.Size 0.FileMode 0.ModTime",
		"/v1/namespaces":                           "0.Name",
	} {
		t.Run(path, func(t *testing.T) {
			answer := w.json(t, path)
			for field := range strings.FieldsSeq(fields) {
				requireField(t, answer, field)
			}
		})
	}
	group := w.json(t, "/v1/job/fields/scale").(map[string]any)["TaskGroups"].(map[string]any)["group"].(map[string]any)
	require.Contains(t, group, "Events")
	require.Nil(t, group["Events"], "there are none: the stock command line looks for null")
}

// requireField requires that a value is there and not null at a path of keys and
// indexes.
func requireField(t *testing.T, v any, path string) {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			require.Contains(t, in, key, path)
			v = in[key]
		case []any:
			require.Equal(t, "0", key, path)
			require.NotEmpty(t, in, path)
			v = in[0]
		default:
			require.Fail(t, "no object", "%s at %s: %v", path, key, v)
		}
	}
	require.NotNil(t, v, path)
}

func TestEmptyListsAreNotNull(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/deployments", "/v1/services", "/v1/vars", "/v1/volumes", "/v1/job/none/allocations", "/v1/job/none/evaluations", "/v1/job/none/deployments", "/v1/evaluation/none/allocations", "/v1/node/none/allocations", "/v1/agent/plugins"} {
		require.Equal(t, []any{}, w.json(t, path), path)
	}
	require.Equal(t, "null", w.get(t, "/v1/job/none/deployment").body, "there is none; 404 would make Nomad's job status fail")
}

// TestAnswersTellTheirIndex has it in the body as Nomad's servers do, and in the header for its client.
func TestAnswersTellTheirIndex(t *testing.T) {
	w := newWorld(t)
	registered := w.do(t, "PUT", "/v1/jobs?pretty", `{"Job":{"ID":"a","Type":"batch","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"none"}]}]}}`)
	require.Contains(t, registered.body, "{\n    \"Index\": ")
	for _, answer := range []reply{
		registered, w.do(t, "DELETE", "/v1/job/a", ""), w.do(t, "PUT", "/v1/search", `{"Prefix":"a","Context":"jobs"}`), w.get(t, "/v1/job/a/versions"),
	} {
		var body struct{ Index uint64 }
		require.NoError(t, json.Unmarshal([]byte(answer.body), &body), answer.body)
		require.NotZero(t, body.Index, answer.body)
		require.Equal(t, answer.header.Get("X-Nomad-Index"), strconv.FormatUint(body.Index, 10))
	}
}
