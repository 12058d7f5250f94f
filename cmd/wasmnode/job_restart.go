package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type jobRestartCommand struct{ meta }

// Synopsis implements [subcommand].
func (*jobRestartCommand) Synopsis() string {
	return "Restart the allocations of a job, some at a time"
}

// Help implements [subcommand].
func (*jobRestartCommand) Help() string {
	return `Usage: wasmnode job restart [options] JOB

  Restarts the running allocations of a job in place, or has others take their place,
  a batch after the other. It is refused while a deployment of the job is going on.

Options:

  -group=GROUP         Only those of a group; may be given several times.
  -task=TASK           Only that task; may be given several times.
  -all-tasks           Also the tasks that have ended.
  -reschedule          Stop each allocation and wait until its replacement runs.
  -batch-size=N|N%     How many at once; 1.
  -batch-wait=TIME|ask How long to wait between batches, or ask; 0s.
  -on-error=ask|fail   What to do when one fails; ask, or fail where nobody can answer.
  -no-shutdown-delay   With -reschedule, without their shutdown delays.
  -yes                 Answer every question with yes.` + commonOptions
}

// restarting is what is asked for.
type restarting struct {
	meta
	flags                       *flags
	client                      *nomad.Client
	groups, tasks               []string
	all, reschedule, yes, rapid bool
	size, wait, onError         string
	answers                     *bufio.Reader
}

func (r *restarting) bind(f *flags) {
	list := func(into *[]string) func(string) error {
		return func(s string) error { *into = append(*into, s); return nil }
	}
	f.Func("group", "", list(&r.groups))
	f.Func("task", "", list(&r.tasks))
	f.BoolVar(&r.all, "all-tasks", false, "")
	f.BoolVar(&r.reschedule, "reschedule", false, "")
	f.BoolVar(&r.yes, "yes", false, "")
	f.BoolVar(&r.rapid, "no-shutdown-delay", false, "")
	f.StringVar(&r.size, "batch-size", "1", "")
	f.StringVar(&r.wait, "batch-wait", "0s", "")
	f.StringVar(&r.onError, "on-error", "ask", "")
}

// Run implements [subcommand].
func (c *jobRestartCommand) Run(args []string) int {
	f := c.flags("job restart")
	r := &restarting{meta: c.meta, flags: f, answers: bufio.NewReader(os.Stdin)}
	r.bind(f)
	client, job := c.onJob(f, args, 1, 1, c.Help())
	if job == nil {
		return 1
	}
	r.client = client
	if err := r.check(); err != nil {
		return c.fail(f, err)
	}
	allocs, err := r.chosen(job)
	if err != nil {
		return c.fail(f, err)
	}
	if len(allocs) == 0 {
		c.ui.Output("No allocations to restart")
		return 0
	}
	if err := r.run(allocs); err != nil {
		return c.fail(f, err)
	}
	c.ui.Output(fmt.Sprintf("==> %s: Job %q: %d allocations restarted", now(), *job.ID, len(allocs)))
	return 0
}

// check reports what does not go together.
func (r *restarting) check() error {
	_, err := time.ParseDuration(r.wait)
	switch {
	case r.all && len(r.tasks) > 0:
		return errors.New("-all-tasks cannot be used with -task")
	case r.reschedule && (r.all || len(r.tasks) > 0):
		return errors.New("-reschedule cannot be used with -all-tasks or -task")
	case r.rapid && !r.reschedule:
		return errors.New("-no-shutdown-delay is for -reschedule")
	case r.onError != "ask" && r.onError != "fail":
		return fmt.Errorf("-on-error %q is neither ask nor fail", r.onError)
	case r.wait != "ask" && err != nil:
		return fmt.Errorf("-batch-wait %q is neither a duration nor ask", r.wait)
	}
	_, err = r.batch(1)
	return err
}

// batch is how many of so many allocations are restarted at once.
func (r *restarting) batch(of int) (int, error) {
	text, percent := strings.CutSuffix(r.size, "%")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || percent && n > 100 {
		return 0, fmt.Errorf("-batch-size %q is neither a number above 0 nor a percentage", r.size)
	}
	if percent {
		n = max(1, of*n/100)
	}
	return n, nil
}

// chosen are the allocations to restart, in the order of their names.
func (r *restarting) chosen(job *nomad.Job) ([]*nomad.AllocationListStub, error) {
	deployments, _, err := r.client.Jobs().Deployments(*job.ID, false, nil)
	if err != nil {
		return nil, err
	}
	for _, d := range deployments {
		if d.Status == nomad.DeploymentStatusRunning {
			return nil, fmt.Errorf("deployment %q of the job is going on: wait for its end", r.flags.short(d.ID))
		}
	}
	for _, group := range r.groups {
		if job.LookupTaskGroup(group) == nil {
			return nil, fmt.Errorf("job %q has no group %q", *job.ID, group)
		}
	}
	allocs, _, err := r.client.Jobs().Allocations(*job.ID, true, nil)
	if err != nil {
		return nil, err
	}
	allocs = slices.DeleteFunc(allocs, func(a *nomad.AllocationListStub) bool { return !r.wants(a) })
	slices.SortFunc(allocs, func(a, b *nomad.AllocationListStub) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return allocs, nil
}

func (r *restarting) wants(a *nomad.AllocationListStub) bool {
	runs := a.DesiredStatus == nomad.AllocDesiredStatusRun &&
		(a.ClientStatus == nomad.AllocClientStatusRunning || r.all && a.ClientStatus == nomad.AllocClientStatusPending)
	has := len(r.tasks) == 0 || slices.ContainsFunc(r.tasks, func(t string) bool { return a.TaskStates[t] != nil })
	return runs && has && (len(r.groups) == 0 || slices.Contains(r.groups, a.TaskGroup))
}

// run restarts the allocations a batch after the other.
func (r *restarting) run(allocs []*nomad.AllocationListStub) error {
	size, err := r.batch(len(allocs))
	if err != nil {
		return err
	}
	for first := true; len(allocs) > 0; first = false {
		if !first {
			if err := r.pause(len(allocs)); err != nil {
				return err
			}
		}
		batch := allocs[:min(size, len(allocs))]
		allocs = allocs[len(batch):]
		if err := r.together(batch); err != nil {
			if r.onError == "fail" || len(allocs) == 0 || !r.ask(fmt.Sprintf("%v. Go on with the other %d?", err, len(allocs))) {
				return err
			}
		}
	}
	return nil
}

// pause waits between batches, or asks.
func (r *restarting) pause(left int) error {
	if r.wait == "ask" {
		if !r.ask(fmt.Sprintf("Restart the next of %d?", left)) {
			return errors.New("the rest was not restarted")
		}
		return nil
	}
	wait, err := time.ParseDuration(r.wait)
	time.Sleep(wait)
	return err
}

// ask reports whether the answer is yes. Where nobody answers it is no.
func (r *restarting) ask(question string) bool {
	if r.yes {
		return true
	}
	r.ui.Output(question + " [y/N]")
	answer, err := r.answers.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// together restarts a batch at once.
func (r *restarting) together(batch []*nomad.AllocationListStub) error {
	errs := make(chan error, len(batch))
	for _, a := range batch {
		r.ui.Output(fmt.Sprintf("==> %s: Restarting allocation %q: group %q", now(), r.flags.short(a.ID), a.TaskGroup))
		go func() { errs <- r.one(a) }()
	}
	var all error
	for range batch {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (r *restarting) one(a *nomad.AllocationListStub) (err error) {
	alloc := &nomad.Allocation{ID: a.ID, NodeID: a.NodeID}
	switch {
	case r.reschedule:
		err = r.replace(a)
	case r.all:
		err = r.client.Allocations().RestartAllTasks(alloc, nil)
	case len(r.tasks) == 0:
		err = r.client.Allocations().Restart(alloc, "", nil)
	}
	for _, task := range r.tasks {
		if a.TaskStates[task] != nil && err == nil {
			err = r.client.Allocations().Restart(alloc, task, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("allocation %q: %w", r.flags.short(a.ID), err)
	}
	return nil
}

// replace stops an allocation, and waits until its replacement runs.
func (r *restarting) replace(a *nomad.AllocationListStub) error {
	params := map[string]string{"no_shutdown_delay": strconv.FormatBool(r.rapid)}
	if _, err := r.client.Allocations().Stop(&nomad.Allocation{ID: a.ID}, &nomad.QueryOptions{Params: params}); err != nil {
		return err
	}
	q := &nomad.QueryOptions{WaitTime: pollWait}
	for id := a.ID; ; {
		alloc, meta, err := r.client.Allocations().Info(id, q)
		switch {
		case err != nil:
			return err
		case alloc.NextAllocation != "":
			id = alloc.NextAllocation
			q.WaitIndex = 0
			continue
		case id == a.ID:
		case alloc.ClientStatus == nomad.AllocClientStatusRunning, alloc.ClientStatus == nomad.AllocClientStatusComplete:
			return nil
		case alloc.ClientTerminalStatus():
			return fmt.Errorf("its replacement %q is %s", r.flags.short(id), alloc.ClientStatus)
		}
		q.WaitIndex = meta.LastIndex
	}
}
