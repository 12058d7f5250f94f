package jobdiff_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi/jobdiff"
)

// job is a canonical job of a group and a task.
func job(change ...func(*nomad.Job)) *nomad.Job {
	task := nomad.NewTask("srv", "raw_exec")
	task.Config = map[string]any{"command": "/bin/sh", "args": []any{"-c", "true"}}
	task.Env = map[string]string{"FOO": "bar"}
	j := nomad.NewServiceJob("web", "web", "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", 2).AddTask(task))
	for _, c := range change {
		c(j)
	}
	j.Canonicalize()
	return j
}

func group(j *nomad.Job) *nomad.TaskGroup { return j.TaskGroups[0] }
func task(j *nomad.Job) *nomad.Task       { return j.TaskGroups[0].Tasks[0] }

// lines are what differs, a line each.
func lines(d *nomad.JobDiff) (all []string) {
	add := func(at string, fields []*nomad.FieldDiff, objects []*nomad.ObjectDiff) {
		all = append(all, inside(at, fields, objects)...)
	}
	add("", d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		all = append(all, g.Type+" group "+g.Name)
		add(g.Name+": ", g.Fields, g.Objects)
		for _, t := range g.Tasks {
			all = append(all, t.Type+" task "+t.Name)
			add(t.Name+": ", t.Fields, t.Objects)
		}
	}
	return all
}

func inside(at string, fields []*nomad.FieldDiff, objects []*nomad.ObjectDiff) (all []string) {
	for _, f := range fields {
		all = append(all, fmt.Sprintf("%s%s %s: %q %q", at, f.Type, f.Name, f.Old, f.New))
	}
	for _, o := range objects {
		all = append(all, at+o.Type+" "+o.Name)
		all = append(all, inside(at+o.Name+": ", o.Fields, o.Objects)...)
	}
	return all
}

func diff(t testing.TB, old, new *nomad.Job, context bool) *nomad.JobDiff {
	t.Helper()
	d, err := jobdiff.New(context).Jobs(old, new)
	require.NoError(t, err)
	return d
}

func TestWhatDiffersIsListedAsNomadDoes(t *testing.T) {
	unchanged := []string{"None group g", "None task srv"}
	for name, c := range map[string]struct {
		was, is func(*nomad.Job)
		want    []string
	}{
		"nothing":      {want: unchanged},
		"a field":      {is: func(j *nomad.Job) { j.Priority = new(70) }, want: append([]string{`Edited Priority: "50" "70"`}, unchanged...)},
		"a meta key":   {is: func(j *nomad.Job) { j.Meta = map[string]string{"k": "v"} }, want: append([]string{`Added Meta[k]: "" "v"`}, unchanged...)},
		"datacenters":  {is: func(j *nomad.Job) { j.Datacenters = []string{"b", "a"} }, want: append([]string{"Added Datacenters", `Datacenters: Added Datacenters: "" "a"`, `Datacenters: Added Datacenters: "" "b"`}, unchanged...)},
		"their order":  {was: func(j *nomad.Job) { j.Datacenters = []string{"a", "b"} }, is: func(j *nomad.Job) { j.Datacenters = []string{"b", "a"} }, want: append([]string{"Edited Datacenters", `Datacenters: Edited Datacenters[0]: "a" "b"`, `Datacenters: Edited Datacenters[1]: "b" "a"`}, unchanged...)},
		"a count":      {is: func(j *nomad.Job) { group(j).Count = new(3) }, want: []string{"Edited group g", `g: Edited Count: "2" "3"`, "None task srv"}},
		"env":          {is: func(j *nomad.Job) { task(j).Env = map[string]string{"FOO": "baz"} }, want: []string{"Edited group g", "Edited task srv", `srv: Edited Env[FOO]: "bar" "baz"`}},
		"config":       {is: func(j *nomad.Job) { task(j).Config["args"] = []any{"-c", "false", "x"} }, want: []string{"Edited group g", "Edited task srv", "srv: Edited Config", `srv: Config: Edited args[1]: "true" "false"`, `srv: Config: Added args[2]: "" "x"`}},
		"nested":       {is: func(j *nomad.Job) { task(j).Config["mount"] = []any{map[string]any{"source": "a", "empty": []any{}}} }, want: []string{"Edited group g", "Edited task srv", "srv: Edited Config", `srv: Config: Added mount[0][empty]: "" "[]"`, `srv: Config: Added mount[0][source]: "" "a"`}},
		"resources":    {is: func(j *nomad.Job) { task(j).Resources = &nomad.Resources{CPU: new(200)} }, want: []string{"Edited group g", "Edited task srv", "srv: Edited Resources", `srv: Resources: Edited CPU: "100" "200"`}},
		"a constraint": {is: func(j *nomad.Job) { j.Constraints = []*nomad.Constraint{{LTarget: "${a}", RTarget: "b", Operand: "="}} }, want: append([]string{"Added Constraint", `Constraint: Added LTarget: "" "${a}"`, `Constraint: Added Operand: "" "="`, `Constraint: Added RTarget: "" "b"`}, unchanged...)},
		"a port": {is: func(j *nomad.Job) {
			group(j).Networks = []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
		}, want: []string{"Edited group g", "g: Added Network", "g: Network: Added Dynamic Port", `g: Network: Dynamic Port: Added HostNetwork: "" "default"`, `g: Network: Dynamic Port: Added IgnoreCollision: "" "false"`, `g: Network: Dynamic Port: Added Label: "" "http"`, `g: Network: Dynamic Port: Added To: "" "0"`, "None task srv"}},
		"a group": {is: func(j *nomad.Job) { j.AddTaskGroup(nomad.NewTaskGroup("h", 1)) }, want: []string{"None group g", "None task srv", "Added group h", `h: Added Count: "" "1"`}},
		"no task": {is: func(j *nomad.Job) { group(j).Tasks = nil }, want: []string{"Edited group g", "Deleted task srv", `srv: Deleted Driver: "raw_exec" ""`, `srv: Deleted Env[FOO]: "bar" ""`}},
		"what is not asked for": {is: func(j *nomad.Job) {
			j.Status, j.Version, j.ModifyIndex, j.Stable = new("running"), new(uint64(7)), new(uint64(9)), new(true)
			j.VersionTag = &nomad.JobVersionTag{Name: "t"}
		}, want: unchanged},
		"what is empty": {is: func(j *nomad.Job) {
			j.Meta, task(j).Meta, j.Constraints = map[string]string{}, map[string]string{}, []*nomad.Constraint{}
		}, want: unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(f func(*nomad.Job)) *nomad.Job {
				if f == nil {
					return job()
				}
				return job(f)
			}
			d := diff(t, change(c.was), change(c.is), false)
			got := lines(d)
			for _, want := range c.want {
				require.Contains(t, got, want)
			}
			if name != "no task" && name != "a group" { // which have all that is filled in
				require.Equal(t, c.want, got)
			}
			same := strings.Join(got, "\n") == strings.Join(unchanged, "\n")
			require.Equal(t, same, d.Type == jobdiff.None)
		})
	}
}

func TestAJobThatWasNotThereIsAddedAndOneThatIsNotIsDeleted(t *testing.T) {
	added := diff(t, nil, job(), true)
	require.Equal(t, "Added", added.Type)
	require.Equal(t, "web", added.ID)
	require.Equal(t, "Added", added.TaskGroups[0].Type)
	require.Equal(t, "Added", added.TaskGroups[0].Tasks[0].Type)
	got := lines(added)
	require.Contains(t, got, `Added AllAtOnce: "" "false"`)
	require.Contains(t, got, `g: Added Count: "" "2"`)
	require.Contains(t, got, `srv: Added KillTimeout: "" "5000000000"`)
	require.Contains(t, got, `srv: Config: Added args[0]: "" "-c"`)
	require.NotContains(t, strings.Join(got, "\n"), "ParentID")
	deleted := diff(t, job(), nil, false)
	require.Equal(t, "Deleted", deleted.Type)
	require.Equal(t, len(got), len(lines(diff(t, job(), nil, true))))
}

// TestANewJobIsListedInNomadsOrder has what Nomad 2.0.5 lists of such a job, and where.
func TestANewJobIsListedInNomadsOrder(t *testing.T) {
	d := diff(t, nil, job(func(j *nomad.Job) {
		j.UI = &nomad.JobUIConfig{Links: []*nomad.JobUILink{{Label: "l", URL: "https://x"}}}
		group(j).Networks = []*nomad.NetworkResource{{Mode: "bridge", DynamicPorts: []nomad.Port{{Label: "p"}}}}
		group(j).Services = []*nomad.Service{{Name: "s", Tags: []string{"a"}, CanaryTags: []string{"b"}}}
		group(j).Constraints = []*nomad.Constraint{{LTarget: "x"}}
		task(j).Templates = []*nomad.Template{{DestPath: new("x")}}
		group(j).AddTask(nomad.NewTask("before", "exec"))
	}), true)
	names := func(objects []*nomad.ObjectDiff) (list []string) {
		for _, o := range objects {
			list = append(list, o.Name)
		}
		return list
	}
	g := d.TaskGroups[0]
	require.Equal(t, []string{"Constraint", "RestartPolicy", "Migrate", "ReschedulePolicy", "EphemeralDisk", "Update", "Network", "Service"}, names(g.Objects))
	require.Equal(t, []string{"CanaryTags", "Tags"}, names(g.Objects[7].Objects))
	require.Equal(t, []string{"before", "srv"}, []string{g.Tasks[0].Name, g.Tasks[1].Name})
	require.Equal(t, []string{"Config", "Resources", "LogConfig", "Template"}, names(g.Tasks[1].Objects))
	got := lines(d)
	for _, line := range []string{
		`UI: Link: Added Url: "" "https://x"`, `g: Added PreventRescheduleOnLost: "" "false"`, `g: Network: Dynamic Port: Added HostNetwork: "" "default"`,
		`srv: Resources: Added DiskMB: "" "0"`, `srv: Resources: Added IOPS: "" "0"`, `srv: Resources: Added MemoryMaxMB: "" "0"`, `srv: Resources: Added SecretsMB: "" "0"`,
	} {
		require.Contains(t, got, line)
	}
	for _, silent := range []string{"Stagger", "CIDR", "Dynamic Port: Added Value"} {
		require.NotContains(t, strings.Join(got, "\n"), silent)
	}
}

func TestContextListsWhatIsTheSameInObjectsThatDiffer(t *testing.T) {
	d := diff(t, job(), job(func(j *nomad.Job) { task(j).Resources = &nomad.Resources{CPU: new(200)} }), true)
	got := lines(d)
	require.Contains(t, got, `srv: Resources: None MemoryMB: "300" "300"`)
	require.NotContains(t, strings.Join(got, "\n"), "None Driver", "a job, its groups and tasks list only what differs")
	require.NotContains(t, strings.Join(got, "\n"), "LogConfig")
}

func TestListsAreMatchedByNameAndOtherwiseAsTheyAre(t *testing.T) {
	services := func(ports ...string) func(*nomad.Job) {
		return func(j *nomad.Job) {
			for _, p := range ports {
				name, port, _ := strings.Cut(p, ":")
				group(j).Services = append(group(j).Services, &nomad.Service{Name: name, PortLabel: port, Provider: "nomad"})
			}
		}
	}
	for name, c := range map[string]struct {
		was, is []string
		want    []string
	}{
		"edited":           {[]string{"a:1", "b:1"}, []string{"a:1", "b:2"}, []string{`g: Edited Service`, `g: Service: Edited PortLabel: "1" "2"`}},
		"the order":        {[]string{"a:1", "b:1"}, []string{"b:1", "a:1"}, []string{`g: Edited Service`, `g: Service: Edited Service[0]: "a" "b"`, `g: Service: Edited Service[1]: "b" "a"`}},
		"twice the name":   {[]string{"a:1", "a:2"}, []string{"a:1", "a:3"}, []string{`g: Edited Service`, `g: Service: Edited PortLabel: "2" "3"`}},
		"one of two names": {[]string{"a:1", "a:2"}, []string{"a:1"}, []string{`g: Deleted Service`, `g: Service: Deleted PortLabel: "2" ""`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(diff(t, job(services(c.was...)), job(services(c.is...)), false))
			require.Equal(t, "Edited group g", got[0])
			for _, want := range c.want {
				require.Contains(t, got, want)
			}
		})
	}
}

// fill sets every field of a value to something.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && depth < 8 {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.Interface {
			e.Set(reflect.ValueOf("x"))
		} else {
			fill(e, depth)
		}
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	}
}

// own are fields that a control plane sets, or that are copied where they are compared.
var own = []string{
	"Job.ID", "Job.Update", "Job.Reschedule", "Job.Migrate", "Job.Status", "Job.StatusDescription", "Job.Stable", "Job.Version",
	"Job.VersionTag", "Job.SubmitTime", "Job.CreateIndex", "Job.ModifyIndex", "Job.JobModifyIndex", "Job.NomadTokenID",
}

// TestNoDifferenceIsMissed sets each field of a job, of a group and of a task to something
// else: whatever Nomad's types get, it is seen.
func TestNoDifferenceIsMissed(t *testing.T) {
	for _, pick := range []func(*nomad.Job) reflect.Value{
		func(j *nomad.Job) reflect.Value { return reflect.ValueOf(j).Elem() },
		func(j *nomad.Job) reflect.Value { return reflect.ValueOf(group(j)).Elem() },
		func(j *nomad.Job) reflect.Value { return reflect.ValueOf(task(j)).Elem() },
	} {
		kind := pick(job()).Type()
		for i := range kind.NumField() {
			name := kind.Name() + "." + kind.Field(i).Name
			changed := job()
			fill(pick(changed).Field(i), 0)
			d := diff(t, job(), changed, false)
			seen := d.Type == "Edited"
			hidden := false
			for _, o := range own {
				hidden = hidden || o == name
			}
			require.Equal(t, !hidden, seen, name)
		}
	}
}

func TestWhatIsListedIsBounded(t *testing.T) {
	many := func(n int, key string) *nomad.Job {
		return job(func(j *nomad.Job) {
			j.Meta = map[string]string{}
			for i := range n {
				j.Meta[fmt.Sprint(key, i)] = "v"
			}
		})
	}
	_, err := jobdiff.New(false).Jobs(job(), many(49_990, "k"))
	require.NoError(t, err)
	_, err = jobdiff.New(false).Jobs(job(), many(50_001, "k"))
	require.ErrorIs(t, err, jobdiff.ErrTooLarge)

	deep := job(func(j *nomad.Job) {
		leaves := map[string]any{}
		for i := range 20_000 {
			leaves[fmt.Sprint(i)] = 1
		}
		task(j).Config = map[string]any{strings.Repeat("long", 10_000): leaves}
	})
	_, err = jobdiff.New(false).Jobs(job(), deep)
	require.ErrorIs(t, err, jobdiff.ErrTooLarge, "paths repeat the keys that they begin with")

	nested := any("x")
	for range 1000 {
		nested = map[string]any{"k": nested}
	}
	d := diff(t, job(), job(func(j *nomad.Job) { task(j).Config["deep"] = nested }), false)
	require.Len(t, lines(d), 4)
}

// FuzzJobs compares whatever decodes as jobs: the answer is always the same, a job never
// differs from itself, and the way back has as many differences.
func FuzzJobs(f *testing.F) {
	for _, j := range []*nomad.Job{job(), job(func(j *nomad.Job) { j.Meta = map[string]string{"a": "b"} })} {
		b, err := json.Marshal(j)
		require.NoError(f, err)
		f.Add(b, []byte(`{"ID":"x"}`))
		f.Add([]byte(`{"TaskGroups":[null,{"Name":"g","Tasks":[null]}]}`), b)
	}
	f.Add([]byte(`{"TaskGroups":[{"Tasks":[{"Config":{"a.b":1,"a":{"b":2}}}]}]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var old, is nomad.Job
		if json.Unmarshal(a, &old) != nil || json.Unmarshal(b, &is) != nil {
			return
		}
		there, err := jobdiff.New(false).Jobs(&old, &is)
		if err != nil {
			return
		}
		again, err := jobdiff.New(false).Jobs(&old, &is)
		require.NoError(t, err)
		require.Equal(t, there, again)
		require.Equal(t, jobdiff.None, diff(t, &old, &old, false).Type)
		back := diff(t, &is, &old, false)
		require.Equal(t, there.Type, back.Type)
	})
}
