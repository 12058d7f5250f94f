package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
	"github.com/wasmnode/wasmnode/jobspec"
)

type jobRunCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobRunCommand) Synopsis() string { return "Run a job, or change one that runs" }

// Help implements [subcommand].
func (*jobRunCommand) Help() string {
	return `Usage: wasmnode job run [options] FILE

  Registers the job in a file ("-" reads standard input) and follows it: a service or
  system job until its allocations are healthy, as the update block has it (its tasks
  have run, and its checks have succeeded, for min_healthy_time, within
  healthy_deadline), a batch job until they have started.

  The exit code is 0 when they are healthy or have started, 1 when something failed,
  and 2 when the job was registered but not all of it could be placed. The job stays
  registered in any case, also when this command is interrupted.

Options:

  -detach              Do not follow: print the evaluation's ID and return.
  -check-index=INDEX   Only register the job if its current modify index is INDEX;
                       0: only if it does not exist.
  -eval-priority=N     The priority of the evaluation, 1 to 100; the job's.
  -preserve-counts     Groups that are registered keep their counts.
  -preserve-resources  Tasks that are registered keep their resources.
  -output              Print the job as JSON and do not register it.
  -var=NAME=VALUE      Set a variable of the file; may be given several times.
  -var-file=FILE       Set variables from a file; may be given several times.` + commonOptions
}

// jobFile is where a job file comes from, and its variables.
type jobFile struct {
	vars     map[string]string
	varFiles []string
	path     string
	sources  map[string][]byte // what was read, by path
}

func (j *jobFile) flags(f *flags) {
	j.vars = map[string]string{}
	f.Func("var", "", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not of the form NAME=VALUE", s)
		}
		j.vars[name] = value
		return nil
	})
	f.Func("var-file", "", func(s string) error { j.varFiles = append(j.varFiles, s); return nil })
}

// args are the flags as they were given, for another command line.
func (j *jobFile) args() (args []string) {
	for _, name := range slices.Sorted(maps.Keys(j.vars)) {
		args = append(args, fmt.Sprintf("-var=%q", name+"="+j.vars[name]))
	}
	for _, name := range j.varFiles {
		args = append(args, fmt.Sprintf("-var-file=%q", name))
	}
	return args
}

// read parses a job file, of HCL or of the JSON that -output prints. What is wrong with it
// is a *jobspec.Error.
func (j *jobFile) read(path string) (*nomad.Job, *nomad.JobSubmission, error) {
	j.path, j.sources = path, map[string][]byte{}
	content, err := j.source(path)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasSuffix(path, ".json") || bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		job, err := decodeJob(path, content)
		return job, nil, err
	}
	o := jobspec.Options{Path: path, Content: content, Vars: j.vars, Env: os.Environ(), AllowFiles: true}
	for _, name := range j.varFiles {
		b, err := j.source(name)
		if err != nil {
			return nil, nil, err
		}
		o.VarFiles = append(o.VarFiles, jobspec.File{Path: name, Content: b})
	}
	job, err := jobspec.Parse(o)
	if err != nil {
		return nil, nil, err
	}
	return job, &nomad.JobSubmission{Source: string(content), Format: "hcl2", VariableFlags: j.vars}, nil
}

// followNamespace has a client ask in the namespace that a job file names, if it names one.
func followNamespace(client *nomad.Client, job *nomad.Job) {
	if job.Namespace != nil && *job.Namespace != "" {
		client.SetNamespace(*job.Namespace)
	}
}

// source reads a file, and keeps it to show what is wrong in it.
func (j *jobFile) source(path string) ([]byte, error) {
	content, err := readFile(path)
	j.sources[path] = content
	return content, err
}

func readFile(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, jobspec.MaxBytes+1))
	}
	return os.ReadFile(path)
}

func decodeJob(path string, content []byte) (*nomad.Job, error) {
	var wrapped struct{ Job *nomad.Job }
	if err := json.Unmarshal(content, &wrapped); err != nil {
		return nil, jsonError(path, content, err)
	}
	if wrapped.Job != nil {
		return wrapped.Job, nil
	}
	job := new(nomad.Job)
	if err := json.Unmarshal(content, job); err != nil {
		return nil, jsonError(path, content, err)
	}
	if job.ID == nil {
		return nil, fmt.Errorf(`%s: no job: the file has the form {"Job": { … }}`, path)
	}
	return job, nil
}

// jsonError describes where in a file JSON is wrong, and which field has another type.
func jsonError(path string, content []byte, err error) error {
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return jsonFault(path, content, syntax.Offset, err.Error())
	case errors.As(err, &mistyped):
		return jsonFault(path, content, mistyped.Offset, fmt.Sprintf("%s cannot be a %s", mistyped.Field, mistyped.Value))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// jsonFault is what is wrong at the last of as many bytes as the decoder has read.
func jsonFault(path string, content []byte, read int64, wrong string) error {
	start := int(min(max(read-1, 0), int64(len(content))))
	line := bytes.LastIndexByte(content[:start], '\n') + 1
	at := hcl.Range{Filename: path, Start: hcl.Pos{
		Line:   1 + bytes.Count(content[:start], []byte("\n")),
		Column: 1 + utf8.RuneCount(content[line:start]),
		Byte:   start,
	}}
	at.End = at.Start
	return &jobspec.Error{Faults: []jobspec.Fault{{Line: hclvalue.At(at, wrong), At: at}}}
}

// refused prints why the node refused a job: each fault at its place in the file, when it is
// the job's.
func (m meta) refused(f *flags, client *nomad.Client, file *jobFile, job *nomad.Job, err error) int {
	if resp, _, validateErr := client.Jobs().Validate(job, nil); validateErr == nil && len(resp.ValidationErrors) > 0 {
		return m.invalid(file, resp.ValidationErrors)
	}
	return m.fail(f, err)
}

// Run implements [subcommand].
func (c *jobRunCommand) Run(args []string) int {
	f := c.flags("job run")
	var file jobFile
	file.flags(f)
	detach := f.Bool("detach", false, "")
	output := f.Bool("output", false, "")
	checkIndex := f.String("check-index", "", "")
	var opts nomad.RegisterOptions
	f.IntVar(&opts.EvalPriority, "eval-priority", 0, "")
	f.BoolVar(&opts.PreserveCounts, "preserve-counts", false, "")
	f.BoolVar(&opts.PreserveResources, "preserve-resources", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	job, submission, err := file.read(f.Arg(0))
	if err != nil {
		return c.unreadable(f, &file, err)
	}
	if *output {
		return c.printJSON(map[string]*nomad.Job{"Job": job})
	}
	opts.Submission = submission
	if *checkIndex != "" {
		opts.EnforceIndex = true
		if opts.ModifyIndex, err = strconv.ParseUint(*checkIndex, 10, 64); err != nil {
			return c.fail(f, fmt.Errorf("-check-index %q is not a number", *checkIndex))
		}
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	followNamespace(client, job)
	resp, _, err := client.Jobs().RegisterOpts(job, &opts, nil)
	if err != nil {
		return c.refused(f, client, &file, job, err)
	}
	c.jobWarnings(&file, resp.Warnings)
	switch {
	case *f.json && (*detach || resp.EvalID == ""):
		return c.printJSON(resp)
	case resp.EvalID == "":
		c.ui.Output("Job registration successful")
		job.Canonicalize()
		for _, line := range launches(job) {
			c.ui.Output("Approximate next launch time: " + line[1])
		}
		return 0
	case *detach:
		c.ui.Output("Job registration successful\nEvaluation ID: " + resp.EvalID)
		return 0
	}
	return (&monitor{meta: c.meta, client: client, flags: f, health: true}).follow(resp.EvalID)
}
