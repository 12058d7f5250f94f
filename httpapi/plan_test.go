package httpapi_test

import (
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAPlanIsAnnotated(t *testing.T) {
	w := newWorld(t, "mock")
	jobs := w.Client.Jobs()
	first, _, err := jobs.Plan(mock("web", nil), true, nil)
	require.NoError(t, err)
	require.Zero(t, first.JobModifyIndex)
	require.Equal(t, "Added", first.Diff.Type)
	group := first.Diff.TaskGroups[0]
	require.Equal(t, map[string]uint64{"create": 1}, group.Updates)
	require.Equal(t, "Count", group.Fields[0].Name)
	require.Equal(t, []string{"forces create"}, group.Fields[0].Annotations)
	require.Equal(t, []string{"forces create"}, group.Tasks[0].Annotations)
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/job/web").status, "a plan registers nothing")

	registered := w.run(t, mock("web", nil), nomad.AllocClientStatusRunning)
	same, _, err := jobs.Plan(mock("web", nil), true, nil)
	require.NoError(t, err)
	require.Equal(t, "None", same.Diff.Type)
	require.Equal(t, map[string]uint64{"ignore": 1}, same.Diff.TaskGroups[0].Updates)
	require.NotZero(t, same.JobModifyIndex)

	for name, c := range map[string]struct {
		change      func(*nomad.Job)
		updates     map[string]uint64
		annotations []string
	}{
		"in place":    {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].KillSignal = "SIGINT" }, map[string]uint64{"in-place update": 1}, []string{"forces in-place update"}},
		"destructive": {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = "u" }, map[string]uint64{"create/destroy update": 1}, []string{"forces create/destroy update"}},
		"a count":     {func(j *nomad.Job) { j.TaskGroups[0].Count = new(0) }, map[string]uint64{"destroy": 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			job := mock("web", nil)
			c.change(job)
			plan, _, err := jobs.Plan(job, true, nil)
			require.NoError(t, err)
			require.Equal(t, "Edited", plan.Diff.Type)
			require.Equal(t, c.updates, plan.Diff.TaskGroups[0].Updates)
			require.Equal(t, c.annotations, plan.Diff.TaskGroups[0].Tasks[0].Annotations)
		})
	}
	alloc, _, err := w.Client.Allocations().Info(registered.ID, nil)
	require.NoError(t, err)
	require.Equal(t, "run", alloc.DesiredStatus)

	for path, body := range map[string]string{
		"/v1/job/web/plan":   `{"Job":{"ID":"wob"}}`,
		"/v1/job/web/plan?":  `{}`,
		"/v1/job/web/plan??": `{"Job":{"ID":"web","TaskGroups":[null]}}`,
	} {
		require.Equal(t, http.StatusBadRequest, w.do(t, "PUT", path, body).status, path)
	}
}

func TestVersionsAreCompared(t *testing.T) {
	w := newWorld(t, "mock")
	jobs := w.Client.Jobs()
	for _, text := range []string{"0", "1", "2"} {
		_, _, err := jobs.Register(mock("web", map[string]any{"stdout_string": text}), nil)
		require.NoError(t, err)
	}
	_, err := jobs.TagVersion("web", 0, "first", "", nil)
	require.NoError(t, err)
	// outputs are what each version's diff says the output was, and is.
	outputs := func(o *nomad.VersionsOptions) (all [][2]string) {
		versions, diffs, _, err := jobs.VersionsOpts("web", o, nil)
		require.NoError(t, err)
		require.Len(t, versions, 3)
		for _, d := range diffs {
			pair := [2]string{}
			for _, o := range d.TaskGroups[0].Tasks[0].Objects {
				pair = [2]string{o.Fields[0].Old, o.Fields[0].New}
			}
			all = append(all, pair)
		}
		return all
	}
	require.Empty(t, outputs(&nomad.VersionsOptions{}))
	require.Equal(t, [][2]string{{"1", "2"}, {"0", "1"}}, outputs(&nomad.VersionsOptions{Diffs: true}))
	fromFirst := [][2]string{{"0", "2"}, {"0", "1"}, {"", ""}}
	require.Equal(t, fromFirst, outputs(&nomad.VersionsOptions{Diffs: true, DiffTag: "first"}))
	require.Equal(t, fromFirst, outputs(&nomad.VersionsOptions{Diffs: true, DiffVersion: new(uint64(0))}))
	for path, c := range map[string]struct {
		status int
		text   string
	}{
		"diffs=true&diff_version=7":            {http.StatusNotFound, "version 7 not found"},
		"diffs=true&diff_version=x":            {http.StatusBadRequest, "Expect a number for `diff_version`, got \"x\""},
		"diffs=true&diff_tag=x":                {http.StatusNotFound, `tag "x" not found`},
		"diffs=true&diff_tag=x&diff_version=1": {http.StatusBadRequest, "diff_version and diff_tag are mutually exclusive"},
	} {
		require.Equal(t, reply{status: c.status, body: c.text}, bare(w.get(t, "/v1/job/web/versions?"+path)))
	}
}
