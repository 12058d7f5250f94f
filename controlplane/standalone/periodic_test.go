package standalone

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// The clock of these tests begins at 2000-01-01T00:00:00Z, which is 946684800.

func periodic(expressions ...string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.Periodic = &nomad.PeriodicConfig{Specs: expressions} }
}

func alone(j *nomad.Job) { j.Periodic.ProhibitOverlap = new(true) }

// children returns the IDs of a job's children without what they begin with, oldest first.
func children(cp *ControlPlane, id string) (ids []string) {
	for _, j := range cp.Jobs() {
		if structs.Deref(j.ParentID) == id {
			ids = append(ids, strings.TrimPrefix(*j.ID, id+"/"))
		}
	}
	slices.Sort(ids)
	return ids
}

func registered(t *testing.T, cp *ControlPlane, j *nomad.Job) *structs.JobChange {
	change, err := cp.RegisterJob(&structs.JobRegistration{Job: j})
	require.NoError(t, err)
	return change
}

// sleep lets time pass, and what is due then be done.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAPeriodicJobIsLaunchedOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withNode(t, "")
		change := registered(t, s, testJob("cron", "batch", periodic("*/10 * * * *")))
		require.Empty(t, change.EvalID, "it runs nothing itself")
		require.Equal(t, statusRunning, status(s, "cron"))
		require.Empty(t, s.JobAllocations("default", "cron"))

		sleep(9 * time.Minute)
		require.Empty(t, children(s, "cron"))
		sleep(11 * time.Minute)
		require.Equal(t, []string{"periodic-946685400", "periodic-946686000"}, children(s, "cron"))

		child := s.Job("default", "cron/periodic-946685400")
		require.Equal(t, *child.ID, *child.Name)
		require.Nil(t, child.Periodic)
		require.Len(t, wanted(s, *child.ID), 1)
		evals := s.JobEvaluations("default", *child.ID)
		require.Len(t, evals, 1)
		require.Equal(t, "periodic-job", evals[0].TriggeredBy)

		report(t, s, wanted(s, *child.ID)[0], structs.ClientComplete)
		require.Equal(t, structs.ChildrenSummary{Running: 1, Dead: 1}, s.JobSummary("default", "cron").Children)
		require.Empty(t, s.JobSummary("default", "cron").Groups["g"])
	})
}

func TestWhatIsStoppedOrOffIsNotLaunched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withNode(t, "")
		registered(t, s, testJob("off", "batch", periodic("* * * * *"), func(j *nomad.Job) { j.Periodic.Enabled = new(false) }))
		registered(t, s, testJob("stopped", "batch", periodic("* * * * *")))
		sleep(time.Minute)
		require.Len(t, children(s, "stopped"), 1)
		change, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "stopped"})
		require.NoError(t, err)
		require.Empty(t, change.EvalID)
		require.Equal(t, statusDead, status(s, "stopped"))
		sleep(time.Hour)
		require.Empty(t, children(s, "off"))
		require.Equal(t, []string{"periodic-946684860"}, children(s, "stopped"))
		require.Len(t, wanted(s, "stopped/periodic-946684860"), 1, "what was launched goes on")

		// Started again, it does not make up for what was not to be launched.
		registered(t, s, testJob("stopped", "batch", periodic("* * * * *")))
		sleep(90 * time.Second)
		require.Len(t, children(s, "stopped"), 2)
	})
}

func TestAJobThatForbidsOverlapIsPassedOverWhileAChildRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withNode(t, "")
		registered(t, s, testJob("cron", "batch", periodic("* * * * *"), alone))
		sleep(3*time.Minute + time.Second)
		require.Equal(t, []string{"periodic-946684860"}, children(s, "cron"))
		report(t, s, wanted(s, "cron/periodic-946684860")[0], structs.ClientFailed)
		sleep(30 * time.Second)
		require.Len(t, children(s, "cron"), 1, "what was passed over is not made up for")
		_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "cron/periodic-946684860"})
		require.NoError(t, err)
		sleep(30 * time.Second)
		require.Equal(t, []string{"periodic-946684860", "periodic-946685040"}, children(s, "cron"))
	})
}

func TestALaunchCanBeForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withNode(t, "")
		registered(t, s, testJob("cron", "batch", periodic("* * * * *"), alone))
		sleep(30 * time.Second)
		for range 2 {
			change, err := s.ForcePeriodic("default", "cron")
			require.NoError(t, err)
			require.NotNil(t, s.Evaluation(change.EvalID))
		}
		require.Equal(t, []string{"periodic-946684830", "periodic-946684831"}, children(s, "cron"))
		for _, id := range children(s, "cron") {
			report(t, s, wanted(s, "cron/"+id)[0], structs.ClientComplete)
		}
		sleep(30 * time.Second)
		require.Contains(t, children(s, "cron"), "periodic-946684860", "the next launch is when it was")
	})
	s := withNode(t, "")
	registered(t, s, testJob("plain", "batch"))
	registered(t, s, testJob("off", "batch", periodic("* * * * *"), func(j *nomad.Job) { j.Periodic.Enabled = new(false) }))
	for id, text := range map[string]string{
		"none":  "job not found",
		"plain": "can't force launch non-periodic job",
		"off":   `can't force run non-tracked job "off" (default)`,
	} {
		_, err := s.ForcePeriodic("default", id)
		require.EqualError(t, err, text)
	}
}

// TestMissedLaunchesAreMadeUpForOnce closes and opens the control plane around launches.
func TestMissedLaunchesAreMadeUpForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		registerNode(t, s, testNode())
		registered(t, s, testJob("cron", "batch", periodic("*/10 * * * *")))
		registered(t, s, testJob("daily", "batch", periodic("@daily")))
		sleep(10 * time.Minute)
		require.NoError(t, s.Close())

		time.Sleep(35 * time.Minute)
		s = open(t, path)
		synctest.Wait()
		require.Equal(t, []string{"periodic-946685400", "periodic-946687500"}, children(s, "cron"), "one launch for three, now")
		require.Empty(t, children(s, "daily"))
		require.NoError(t, s.Close())

		s = open(t, path)
		synctest.Wait()
		require.Len(t, children(s, "cron"), 2, "nothing is launched twice")
		sleep(5 * time.Minute)
		require.Equal(t, "periodic-946687800", children(s, "cron")[2], "the next is on time again")
		require.Equal(t, int64(3), s.JobSummary("default", "cron").Children.Running)
	})
}

func TestANewVersionIsLaunchedWhenItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withNode(t, "")
		registered(t, s, testJob("cron", "batch", periodic("@daily")))
		sleep(90 * time.Minute)
		registered(t, s, testJob("cron", "batch", periodic("0 * * * *")))
		synctest.Wait()
		require.Empty(t, children(s, "cron"), "the hour before it was registered is not made up for")
		sleep(30 * time.Minute)
		require.Equal(t, []string{"periodic-946692000"}, children(s, "cron"))
	})
}

func TestForgottenChildrenStayCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		registerNode(t, s, testNode())
		registered(t, s, testJob("cron", "batch", periodic("* * * * *")))
		sleep(3 * time.Minute)
		for _, id := range children(s, "cron")[:2] {
			report(t, s, wanted(s, "cron/"+id)[0], structs.ClientComplete)
		}
		s.CollectGarbage()
		require.Len(t, children(s, "cron"), 1)
		require.NoError(t, s.Close())
		s = open(t, path)
		require.Equal(t, structs.ChildrenSummary{Running: 1, Dead: 2}, s.JobSummary("default", "cron").Children)
	})
}

func TestAJobStaysOfItsKind(t *testing.T) {
	s := withNode(t, "")
	parameterized := func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }
	for _, c := range []struct {
		was, is []func(*nomad.Job)
		text    string
	}{
		{nil, []func(*nomad.Job){periodic("@daily")}, "cannot update non-periodic job to being periodic"},
		{[]func(*nomad.Job){periodic("@daily")}, nil, "cannot update periodic job to being non-periodic"},
		{nil, []func(*nomad.Job){parameterized}, "cannot update non-parameterized job to being parameterized"},
		{[]func(*nomad.Job){parameterized}, nil, "cannot update parameterized job to being non-parameterized"},
	} {
		registered(t, s, testJob("j", "batch", c.was...))
		_, err := s.RegisterJob(&structs.JobRegistration{Job: testJob("j", "batch", c.is...)})
		require.EqualError(t, err, c.text)
		_, err = s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "j", Purge: true})
		require.NoError(t, err)
	}
	registered(t, s, testJob("j", "batch"))
	_, err := s.RegisterJob(&structs.JobRegistration{Job: testJob("j", "sysbatch")})
	require.EqualError(t, err, `cannot update job from type "batch" to "sysbatch"`)
	require.Equal(t, "batch", *s.Job("default", "j").Type)
}

func TestFaultsOfPeriodicAndParameterizedJobs(t *testing.T) {
	s := open(t, "")
	for text, job := range map[string]*nomad.Job{
		`Periodic can only be used with "batch" or "sysbatch" scheduler`:          testJob("j", "service", periodic("@daily")),
		`periodic: Must specify a spec`:                                           testJob("j", "batch", periodic()),
		`Parameterized job can only be used with "batch" or "sysbatch" scheduler`: testJob("j", "system", func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }),
		`parameterized: Unknown payload requirement: "maybe"`:                     testJob("j", "batch", func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "maybe"} }),
		`parameterized: Required and optional meta keys should be disjoint. Following keys exist in both: [a]`: testJob("j", "batch", func(j *nomad.Job) {
			j.ParameterizedJob = &nomad.ParameterizedJobConfig{MetaRequired: []string{"a"}, MetaOptional: []string{"b", "a"}}
		}),
	} {
		_, err := s.RegisterJob(&structs.JobRegistration{Job: job})
		require.EqualError(t, err, text)
	}
}

// TestALaunchThatCannotBeStoredIsMadeUpForOnce has the disk be full at the time of a launch,
// and the control plane be opened again from what the file has.
func TestALaunchThatCannotBeStoredIsMadeUpForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		registerNode(t, s, testNode())
		registered(t, s, testJob("cron", "batch", periodic("0 * * * *")))
		good := s.file
		require.NoError(t, s.write(func(tx *tx) error { tx.cp.file = &failingFile{file: good, n: 1}; return nil }))
		sleep(time.Hour + time.Second)
		require.Empty(t, children(s, "cron"), "nothing is visible that is not durable")
		require.NoError(t, s.write(func(tx *tx) error { tx.cp.file = good; return nil }))
		sleep(2 * storeRetry)
		require.Equal(t, []string{"periodic-946688400"}, children(s, "cron"))
		require.NoError(t, s.Close())
		s = open(t, path)
		synctest.Wait()
		require.Equal(t, []string{"periodic-946688400"}, children(s, "cron"))
		require.Len(t, wanted(s, "cron/periodic-946688400"), 1)
	})
}

// TestAFileWithoutLaunchesCountsFromTheRegistration is of a row that was lost.
func TestAFileWithoutLaunchesCountsFromTheRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		s := open(t, path)
		registered(t, s, testJob("cron", "batch", periodic("0 * * * *")))
		require.NoError(t, s.write(func(tx *tx) error {
			tx.touched[TableJobs] = tx.at()
			tx.parents.delete(jobKey{"default", "cron"})
			return nil
		}))
		require.NoError(t, s.Close())
		time.Sleep(90 * time.Minute)
		s = open(t, path)
		synctest.Wait()
		require.Equal(t, []string{"periodic-946690200"}, children(s, "cron"))
	})
}
