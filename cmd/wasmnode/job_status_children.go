package main

import (
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// isParent reports whether a job runs nothing itself, but by its children.
func isParent(j *nomad.Job) bool { return j.IsPeriodic() || j.IsParameterized() }

// kind is a job's type, with what else it is.
func kind(j *nomad.JobListStub) string {
	kind := j.Type
	if j.Periodic {
		kind += "/periodic"
	}
	if j.ParameterizedJob {
		kind += "/parameterized"
	}
	return kind
}

// launches are lines about when a job is launched; none of one that is not.
func launches(j *nomad.Job) [][2]string {
	next := ""
	switch {
	case !j.IsPeriodic() || j.IsParameterized():
		return nil
	case *j.Stop:
		next = "none (job stopped)"
	case !*j.Periodic.Enabled:
		next = "none (not enabled)"
	default:
		next = nextLaunch(j.Periodic, time.Now())
	}
	return [][2]string{{"Next Periodic Launch", next}}
}

func nextLaunch(p *nomad.PeriodicConfig, now time.Time) string {
	zone, err := p.GetLocation()
	if err != nil {
		return err.Error()
	}
	next, err := p.Next(now.In(zone))
	switch {
	case err != nil:
		return err.Error()
	case next.IsZero():
		return "none"
	}
	return next.Format(time.RFC3339) + " (" + next.Sub(now).Round(time.Second).String() + " from now)"
}

// showChildren prints what a job's children are.
func (c *jobStatusCommand) showChildren(client *nomad.Client, job *nomad.Job, summary *nomad.JobSummary) error {
	head, list, none, suffix := "Children Job Summary", "Previously Launched Jobs", "No instances of periodic job found", nomad.JobPeriodicLaunchSuffix
	if p := job.ParameterizedJob; job.IsParameterized() {
		head, list, none, suffix = "Parameterized Job Summary", "Dispatched Jobs", "No dispatched instances of parameterized job found", nomad.JobDispatchLaunchSuffix
		c.ui.Output("\nParameterized Job")
		c.pairs([][2]string{
			{"Payload", p.Payload},
			{"Required Metadata", strings.Join(p.MetaRequired, ", ")},
			{"Optional Metadata", strings.Join(p.MetaOptional, ", ")},
		})
	}
	c.ui.Output("\n" + head)
	row := []string{}
	for _, n := range []int64{summary.Children.Pending, summary.Children.Running, summary.Children.Dead} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	c.table([][]string{{"Pending", "Running", "Dead"}, row})
	stubs, _, err := client.Jobs().PrefixList(*job.ID + suffix)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "Status"}}
	for _, s := range stubs {
		if s.ParentID == *job.ID {
			rows = append(rows, []string{s.ID, s.Status})
		}
	}
	if len(rows) == 1 {
		c.ui.Output("\n" + none)
		return nil
	}
	c.ui.Output("\n" + list)
	c.table(rows)
	return nil
}
