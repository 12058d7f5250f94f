package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
)

// shape is what Nomad was seen to answer to a request.
type shape struct {
	method, path, body string
	// objects are the fields of the objects in it, by their paths; none: it is no object.
	objects map[string][]seen
	whole   string // the kind of an answer that is no object
	// missing are the paths of fields that we do not have, or have otherwise, and why.
	missing map[string]string
}

// seen is a field, with the kinds of values that it had.
type seen struct {
	name      string
	kinds     string // of " # ? {} [] and -, which is null
	sometimes bool   // it was not in all objects of its path
}

// TestAnswersHaveTheFieldsOfNomads compares answers with testdata/fields.txt, which has the
// names and kinds of all that Nomad 2.0.5 answered: a request in a line, then the objects in
// its answer by their paths, and lines that begin with "!" for what we leave out.
func TestAnswersHaveTheFieldsOfNomads(t *testing.T) {
	w := newWorld(t, "mock")
	fill := w.things(t)
	for _, s := range shapes(t) {
		t.Run(s.method+" "+s.path, func(t *testing.T) {
			answer := w.do(t, s.method, fill.Replace(s.path), fill.Replace(s.body))
			require.Equal(t, http.StatusOK, answer.status, answer.body)
			var v any
			require.NoError(t, json.Unmarshal([]byte(answer.body), &v))
			if s.whole != "" {
				require.Equal(t, s.whole, kind(v))
				return
			}
			found := map[string][]map[string]any{}
			collect(v, "", found)
			wrong := map[string]string{}
			for path, fields := range s.objects {
				s.compare(path, fields, found[path], wrong)
			}
			for path := range s.missing {
				require.Contains(t, wrong, path, "it is there now: drop it from testdata/fields.txt")
			}
			for _, path := range slices.Sorted(maps.Keys(wrong)) {
				if s.missing[path] == "" {
					t.Errorf("%s: %s", path, wrong[path])
				}
			}
		})
	}
}

// compare finds what is wrong with the objects at a path.
func (s *shape) compare(path string, fields []seen, objects []map[string]any, wrong map[string]string) {
	if len(objects) == 0 {
		for at := path; at != ""; at = at[:max(strings.LastIndexByte(at, '.'), 0)] {
			if s.missing[at] != "" || s.missing[strings.TrimSuffix(at, "[]")] != "" {
				return
			}
		}
		wrong[path] = "there is none"
	}
	for _, f := range fields {
		at := strings.TrimPrefix(path+"."+f.name, ".")
		for _, o := range objects {
			value, there := o[f.name]
			switch {
			case !there && !f.sometimes:
				wrong[at] = "it is not there"
			case f.sometimes && value == nil: // Nomad leaves it out then
			case there && !strings.Contains(f.kinds, kind(value)):
				wrong[at] = fmt.Sprintf("it is %s, not %s", kind(value), f.kinds)
			}
		}
	}
}

// kind is how a value is written in testdata/fields.txt.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "-"
	case bool:
		return "?"
	case float64:
		return "#"
	case string:
		return `"`
	case []any:
		return "[]"
	}
	return "{}"
}

// collect finds the objects in a value, by their paths. The members of one whose keys are
// names also have the path with a star.
func collect(v any, path string, found map[string][]map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			collect(e, path+"[]", found)
		}
	case map[string]any:
		found[path] = append(found[path], v)
		for name, e := range v {
			collect(e, strings.TrimPrefix(path+"."+name, "."), found)
			collect(e, strings.TrimPrefix(path+".*", "."), found)
		}
	}
}

func shapes(t *testing.T) (all []*shape) {
	t.Helper()
	text, err := os.ReadFile("testdata/fields.txt")
	require.NoError(t, err)
	var s *shape
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case first == "" || strings.HasPrefix(line, "//"):
		case line[0] != ' ':
			path, body, _ := strings.Cut(rest, " ")
			s = &shape{method: first, path: path, body: body, objects: map[string][]seen{}, missing: map[string]string{}}
			all = append(all, s)
		case first == "!":
			path, why, _ := strings.Cut(rest, " ")
			require.NotEmpty(t, why, "%s %s: why is it left out?", s.path, path)
			s.missing[path] = why
		case first == "=":
			s.whole = rest
		default:
			path := strings.TrimSuffix(strings.TrimSuffix(first, ":"), ".")
			for field := range strings.FieldsSeq(rest) {
				name := strings.TrimRight(field, "\"#?{}[]-~")
				f := seen{name: name, kinds: field[len(name):]}
				f.kinds, f.sometimes = strings.CutPrefix(f.kinds, "~")
				s.objects[path] = append(s.objects[path], f)
			}
		}
	}
	require.Greater(t, len(all), 50)
	return all
}

const webJob = `
job "web" {
  group "group" {
    count = 1
    update {
      min_healthy_time = "10ms"
    }
    scaling {
      min = 0
      max = 4
      policy {}
    }
    network {
      port "http" {}
    }
    service {
      port     = "http"
      provider = "nomad"
      check {
        type      = "tcp"
        interval  = "1h"
        timeout   = "1s"
        on_update = "ignore"
      }
    }
    ephemeral_disk {
      size = 20
    }
    task "task" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
      env {
        COLOUR = "%s"
      }
      resources {
        cpu    = 10
        memory = 16
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}`

// things makes what the requests are about, and returns what puts their names in.
func (w *world) things(t *testing.T) *strings.Replacer {
	t.Helper()
	asJSON := func(hcl string) string {
		job, err := jobspec.Parse(jobspec.Options{Path: "job.hcl", Content: []byte(hcl)})
		require.NoError(t, err)
		b, err := json.Marshal(job)
		require.NoError(t, err)
		return string(b)
	}
	put := func(path, body string) {
		r := w.do(t, http.MethodPut, path, body)
		require.Equal(t, http.StatusOK, r.status, r.body)
	}
	nodes, _, err := w.Client.Nodes().List(nil)
	require.NoError(t, err)
	put("/v1/node/"+nodes[0].ID+"/drain", `{"DrainSpec":{"Deadline":1000000000}}`)
	require.Eventually(t, func() bool {
		node, _, err := w.Client.Nodes().Info(nodes[0].ID, nil)
		return err == nil && !node.Drain
	}, time.Minute, 10*time.Millisecond)
	put("/v1/node/"+nodes[0].ID+"/eligibility", `{"Eligibility":"eligible"}`)
	web := asJSON(fmt.Sprintf(webJob, "red"))
	put("/v1/jobs", `{"Job":`+web+`,"Submission":{"Source":"job \"web\" {}","Format":"hcl2"}}`)
	slow := strings.ReplaceAll(strings.Replace(webJob, `"10ms"`, `"2m"`, 1), `"web"`, `"slow"`)
	put("/v1/jobs", `{"Job":`+asJSON(fmt.Sprintf(slow, "red"))+`}`)
	for _, job := range []*nomad.Job{parameterized("param", &nomad.ParameterizedJobConfig{}), mock("cron", nil), mock("big", nil)} {
		switch *job.ID {
		case "cron":
			job.Periodic = &nomad.PeriodicConfig{Specs: []string{"@yearly"}}
		case "big":
			job.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(1 << 30)
		}
		_, _, err := w.Client.Jobs().Register(job, nil)
		require.NoError(t, err)
	}
	w.Await(t, "slow", nomad.AllocClientStatusRunning) // until then its tasks have less to tell
	stub := w.Await(t, "web", nomad.AllocClientStatusRunning)[0]
	first, _, err := w.Client.Jobs().LatestDeployment("web", nil)
	require.NoError(t, err)
	w.awaitDeployment(t, first.ID, func(d *nomad.Deployment) bool { return d.Status == nomad.DeploymentStatusSuccessful })
	put("/v1/job/web/scale", `{"Count":1,"Target":{"Group":"group"},"Message":"m"}`)
	slowly, _, err := w.Client.Jobs().LatestDeployment("slow", nil)
	require.NoError(t, err)
	evals, _, err := w.Client.Jobs().Evaluations("big", nil)
	require.NoError(t, err)
	blocked := slices.IndexFunc(evals, func(e *nomad.Evaluation) bool { return e.BlockedEval != "" })
	return strings.NewReplacer("{alloc}", stub.ID, "{node}", stub.NodeID, "{eval}", stub.EvalID, "{deployment}", first.ID, "{slow}", slowly.ID,
		"{blocked}", evals[blocked].ID, "{web}", web, "{web2}", asJSON(fmt.Sprintf(webJob, "blue")))
}
