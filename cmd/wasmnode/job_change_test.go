package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sleepers is a batch job of so many tasks that run until they are stopped.
func sleepers(t *testing.T, id string, count int, env string) (file string) {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), fmt.Sprintf(`
variable "output" { default = "" }
job %q {
  type = "batch"
  group "g" {
    count = %d
    scaling {
      min = 1
      max = 3
      policy {}
    }
    task "t" {
      driver = "mock_driver"
      config {
        run_for       = "1h"
        stdout_string = var.output
      }
      env { KEY = %q }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
`, id, count, env))
}

// TestAJobIsPlannedChangedAndGoneBackWith is a day with a job.
func TestAJobIsPlannedChangedAndGoneBackWith(t *testing.T) {
	n := newSite(t, "mock").start(t)
	one := sleepers(t, "work", 1, "one")

	r := n.run(t, "job", "plan", one)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `(?m)^\+   Job: "work"$`, r.stdout)
	assert.Regexp(t, `(?m)^\+   Task Group: "g" \(1 create\)$`, r.stdout)
	assert.Contains(t, r.stdout, "- All tasks successfully allocated.")
	assert.Contains(t, r.stdout, "wasmnode job run -check-index 0 "+one)
	n.out(t, "job", "run", one)

	r = n.run(t, "job", "plan", one)
	assert.Equal(t, 0, r.code)
	assert.Contains(t, r.stdout, "No changes")
	r = n.run(t, "job", "plan", "-var", "output=x", one)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `Task: "t" \(forces create/destroy update\)`, r.stdout)
	assert.Contains(t, r.stdout, `-var="output=x" `+one)
	r = n.run(t, "job", "plan", "-diff=false", "-var", "output=x", one)
	assert.NotContains(t, r.stdout, `Task: "t"`)
	for _, args := range [][]string{{"-policy-override", one}, {"/none.hcl"}, {}, {sleepers(t, "work", 9, "one")}} {
		assert.Equal(t, 255, n.run(t, append([]string{"job", "plan"}, args...)...).code, "%v", args)
	}

	n.out(t, "job", "tag", "apply", "-name", "golden", "-description", "it works", "work")
	n.out(t, "job", "run", sleepers(t, "work", 1, "two"))
	history := n.out(t, "job", "history", "-p", "work")
	assert.Regexp(t, `Version +?= 1\n`, history)
	assert.Contains(t, history, `Env[KEY]: "one" => "two"`)
	assert.Regexp(t, `Tag Name +?= golden\n`, history)
	assert.Equal(t, "1 0 \n", n.out(t, "job", "history", "-t", "{{range .}}{{.Version}} {{end}}", "work"))
	assert.NotRegexp(t, `Version += 1\b`, n.out(t, "job", "history", "-version", "0", "work"))
	assert.Contains(t, n.out(t, "job", "history", "-full", "-version", "golden", "work"), `"Job": {`)

	n.out(t, "job", "revert", "work", "golden")
	assert.Contains(t, n.out(t, "job", "inspect", "work"), `"KEY": "one"`)
	wants(t, n.run(t, "job", "revert", "work", "2"), 1, `can't revert to current version`)
	wants(t, n.run(t, "job", "revert", "work", "silver"), 1, `"silver" is neither the number nor the tag of a version of job "work"`)
	n.out(t, "job", "tag", "unset", "-name", "golden", "work")
	wants(t, n.run(t, "job", "tag", "unset", "-name", "golden", "work"), 1, `tag "golden" not found on job "work"`)

	n.out(t, "job", "scale", "work", "3")
	n.out(t, "job", "scale", "work", "g", "2")
	n.out(t, "job", "run", "-preserve-counts", "-preserve-resources", "-eval-priority", "70", one)
	assert.Equal(t, "2\n", n.out(t, "job", "inspect", "-t", "{{(index .Job.TaskGroups 0).Count}}", "work"))
	assert.Regexp(t, `(?m)^[0-9a-f]{8} +70 +job-register `, n.out(t, "eval", "list", "-job", "work"))
	wants(t, n.run(t, "job", "run", "-eval-priority", "101", one), 1, `Eval priority must be between 1 and 100 inclusively`)
	wants(t, n.run(t, "job", "scale", "work", "4"), 1, `group count was greater than scaling policy maximum: 4 > 3`)
	assert.Regexp(t, `(?s)g +2 +3 .*g +3 +1 `, n.out(t, "job", "scaling-events", "work"))
	id := regexp.MustCompile(`(?m)^[0-9a-f]{8}`).FindString(n.out(t, "scaling", "policy", "list"))
	require.NotEmpty(t, id)
	assert.Regexp(t, `(?s)Min +?= 1\nMax +?= 3\n`, n.out(t, "scaling", "policy", "info", id))
	n.out(t, "job", "stop", "-yes", "-global", "-eval-priority", "80", "work")
	assert.Regexp(t, `(?m)^[0-9a-f]{8} +80 +job-deregister `, n.out(t, "eval", "list", "-job", "work"))
}
