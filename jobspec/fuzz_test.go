package jobspec

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse looks for files that make Parse panic, or say nothing about what is wrong,
// or give a job that cannot be sent.
func FuzzParse(f *testing.F) {
	seeds := []string{
		"",
		"job \"j\" {}",
		inTask("config {\n a = { b = 1 }\n c \"d\" {}\n}"),
		"variable \"a\" {\n type = list(string)\n default = []\n validation {\n condition = true\n error_message = \"m\"\n}\n}\n" + inTask("driver = var.a"),
		"locals {\n a = local.b\n b = \"${attr.x.y}-${attr.x}\"\n}\n" + inTask("driver = local.a"),
		inJob("dynamic \"group\" {\n for_each = [1]\n labels = [\"g\"]\n iterator = it\n content {\n count = it.value\n}\n}"),
		inJob("group \"g\" {\n scaling {\n max = 1\n policy {\n a = 1\n}\n}\n network {\n port \"p\" {\n static = 1\n}\n}\n volume \"v\" {}\n}"),
		inJob("constraint {\n distinct_hosts = true\n}\nperiodic {\n crons = [\"@daily\"]\n}\nmeta {\n a = 1e999\n}"),
		inTask("kill_timeout = 1.5\ntemplate {\n splay = \"5s\"\n}\nenv = {\n \"a.b\" = \"%{ if true }x%{ endif }\"\n}"),
	}
	examples, err := filepath.Glob("../guest-examples/jobs/*.hcl")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range examples {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, string(content))
	}
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if costly(content) {
			t.Skip("what functions and loops compute is not bounded")
		}
		job, err := Parse(Options{Path: "job.hcl", Content: content})
		if err == nil {
			if _, err := json.Marshal(job); err != nil {
				t.Fatalf("the job has no JSON: %v", err)
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) || len(e.Faults) == 0 {
			t.Fatalf("not an Error with faults: %v", err)
		}
		for _, fault := range e.Faults {
			if strings.Contains(fault.Line, "\n") || !strings.HasPrefix(fault.Line, "job.hcl:") {
				t.Fatalf("not a line with its place: %q", fault.Line)
			}
		}
	})
}

// costly reports whether a file can compute for long.
func costly(content []byte) bool {
	for _, s := range []string{"bcrypt", "format", "indent", "pow", "setproduct", "range", "for "} {
		if strings.Contains(string(content), s) {
			return true
		}
	}
	return false
}

// FuzzLocate looks for paths that make Locate panic, or point outside of the file.
func FuzzLocate(f *testing.F) {
	for _, fault := range []string{
		`constraint 2: no`, `group "web: a": network: port "x": static: no`, `group "alone": task "alone": driver: no`,
		`group "web: a": task "app": config.limits[0]["of.all"].most[0]: no`, `group "web: a": service "two": check: no`,
	} {
		f.Add([]byte(located), fault)
	}
	f.Fuzz(func(t *testing.T, content []byte, fault string) {
		at := Locate("job.hcl", content, []string{fault})[0].At
		if at.Filename != "" && (at.Start.Byte > at.End.Byte || at.End.Byte > len(content)) {
			t.Fatalf("outside of the file: %v", at)
		}
	})
}
