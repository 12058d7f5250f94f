package standalone

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// rollout is a service of three whose update block is as given, in a version that its user
// names.
func rollout(version string, change ...func(*nomad.UpdateStrategy)) *nomad.Job {
	u := &nomad.UpdateStrategy{MaxParallel: new(1)}
	for _, c := range change {
		c(u)
	}
	return testJob("web", "service", count(3), user(version), memory(10), reschedule(5*time.Second), func(j *nomad.Job) { j.TaskGroups[0].Update = u })
}

func autoRevert(u *nomad.UpdateStrategy)  { u.AutoRevert = new(true) }
func canaries(u *nomad.UpdateStrategy)    { u.Canary = new(1) }
func autoPromote(u *nomad.UpdateStrategy) { u.Canary, u.AutoPromote = new(1), new(true) }

// firstUnhealthyFails has a deployment fail with the first allocation that is not healthy.
func firstUnhealthyFails(u *nomad.UpdateStrategy) { u.ProgressDeadline = new(time.Duration(0)) }

// latest is the deployment of the job's last version.
func latest(t *testing.T, cp *ControlPlane) *structs.Deployment {
	t.Helper()
	list := cp.JobDeployments("default", "web")
	require.NotEmpty(t, list)
	return list[0]
}

// decide reports the health of all allocations of the latest deployment of which it is not
// known, and returns how many these were.
func decide(t *testing.T, cp *ControlPlane, healthy bool) int {
	t.Helper()
	d := latest(t, cp)
	var states []*structs.AllocationState
	for _, a := range wanted(cp, "web") {
		if a.DeploymentID == d.ID && (a.DeploymentStatus == nil || a.DeploymentStatus.Healthy == nil) {
			states = append(states, decided(a, healthy))
		}
	}
	if len(states) > 0 {
		require.NoError(t, cp.ForNode().UpdateAllocations(t.Context(), testNode().ID, states))
	}
	return len(states)
}

// decided is what a node reports of an allocation whose health it has decided.
func decided(a *structs.Allocation, healthy bool) *structs.AllocationState {
	return &structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientRunning, DeploymentStatus: &structs.DeploymentStatus{
		Healthy: &healthy, Timestamp: time.Now().UTC(), DeploymentID: a.DeploymentID,
	}}
}

// succeed reports good health until the latest deployment has ended.
func succeed(t *testing.T, cp *ControlPlane) {
	t.Helper()
	for latest(t, cp).Active() {
		require.Positive(t, decide(t, cp, true), "it waits for nothing: %+v", latest(t, cp))
	}
	require.Equal(t, nomad.DeploymentStatusSuccessful, latest(t, cp).Status)
}

func versions(cp *ControlPlane) (list []string) {
	for _, a := range wanted(cp, "web") {
		list = append(list, a.Job.TaskGroups[0].Tasks[0].User)
	}
	return list
}

func TestADeploymentThatSucceedsMakesItsVersionStable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	s := withNode(t, path)
	e := run(t, s, rollout("a"))
	d := latest(t, s)
	require.Equal(t, d.ID, e.DeploymentID)
	require.Equal(t, nomad.DeploymentStatusRunning, d.Status)
	require.Equal(t, structs.DeploymentIsRunning, d.StatusDescription)
	require.Equal(t, 3, d.TaskGroups["g"].PlacedAllocs)
	require.False(t, *s.Job("default", "web").Stable)
	succeed(t, s)
	d = latest(t, s)
	require.Equal(t, structs.DeploymentSucceeded, d.StatusDescription)
	require.Equal(t, 3, d.TaskGroups["g"].HealthyAllocs)
	require.True(t, *s.Job("default", "web").Stable)
	run(t, s, rollout("b"))
	for _, want := range []string{"b a a", "b b a", "b b b"} {
		require.ElementsMatch(t, fields(want), versions(s))
		require.Equal(t, 1, decide(t, s, true))
	}
	require.Equal(t, nomad.DeploymentStatusSuccessful, latest(t, s).Status)
	require.NoError(t, s.Close())

	s = open(t, path)
	require.Len(t, s.JobDeployments("default", "web"), 2, "they are stored")
	require.Equal(t, nomad.DeploymentStatusSuccessful, latest(t, s).Status)
	require.True(t, *s.Job("default", "web").Stable)
	_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
	require.NoError(t, err)
	require.True(t, *s.Job("default", "web").Stable, "it works as before when it is started again")
}

func fields(s string) (list []string) {
	for _, f := range []byte(s) {
		if f != ' ' {
			list = append(list, string(f))
		}
	}
	return list
}

func TestAFailedDeploymentLeavesOrReverts(t *testing.T) {
	for name, c := range map[string]struct {
		update      []func(*nomad.UpdateStrategy)
		firstWorks  bool
		second      string
		description string
		versions    string
		version     uint64
	}{
		"it leaves": {[]func(*nomad.UpdateStrategy){firstUnhealthyFails}, true, "b",
			"Failed due to unhealthy allocations", "b a a", 1},
		"it reverts": {[]func(*nomad.UpdateStrategy){firstUnhealthyFails, autoRevert}, true, "b",
			"Failed due to unhealthy allocations - rolling back to job version 0", "b a a", 2},
		"nothing was stable": {[]func(*nomad.UpdateStrategy){firstUnhealthyFails, autoRevert}, false, "b",
			"Failed due to unhealthy allocations - no stable job version to auto revert to", "b a a", 1},
		"a canary": {[]func(*nomad.UpdateStrategy){firstUnhealthyFails, canaries}, true, "b",
			"Failed due to unhealthy allocations", "a a a", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := withNode(t, "")
			run(t, s, rollout("a", c.update...))
			if c.firstWorks {
				succeed(t, s)
			}
			run(t, s, rollout(c.second, c.update...))
			failing := latest(t, s)
			require.Equal(t, 1, decide(t, s, false))
			got := s.Deployment(failing.ID)
			require.Equal(t, nomad.DeploymentStatusFailed, got.Status)
			require.Equal(t, c.description, got.StatusDescription)
			require.Equal(t, c.version, *s.Job("default", "web").Version)
			require.ElementsMatch(t, fields(c.versions), versions(s))
			if c.version == 2 {
				require.NotEqual(t, failing.ID, latest(t, s).ID, "the way back is a deployment")
				succeed(t, s)
				require.ElementsMatch(t, fields("a a a"), versions(s))
			}
		})
	}
}

func TestAVersionThatFailsOnItsWayBackIsNotRevertedForEver(t *testing.T) {
	s := withNode(t, "")
	run(t, s, rollout("a", firstUnhealthyFails, autoRevert))
	succeed(t, s)
	run(t, s, rollout("b", firstUnhealthyFails, autoRevert))
	decide(t, s, false)
	decide(t, s, false)
	require.Equal(t, uint64(2), *s.Job("default", "web").Version)
	require.Equal(t, "Failed due to unhealthy allocations - not rolling back to stable job version 0 as current job has same specification",
		latest(t, s).StatusDescription)
}

func TestADeploymentFailsAtOnceWhereNothingReplacesWhatFailed(t *testing.T) {
	for attempts, want := range map[int]string{0: nomad.DeploymentStatusFailed, 1: nomad.DeploymentStatusRunning} {
		s := withNode(t, "")
		version := func(name string) *nomad.Job {
			j := rollout(name)
			j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: &attempts, Interval: new(time.Hour), Unlimited: new(false)}
			return j
		}
		run(t, s, version("a"))
		succeed(t, s)
		run(t, s, version("b"))
		require.Equal(t, 1, decide(t, s, false))
		require.Equal(t, want, latest(t, s).Status)
	}
}

// The time counts from the last progress, over a pause, and is kept in the file.
func TestADeploymentWithoutProgressFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which time passes at once
		s := withNode(t, "")
		run(t, s, rollout("a", autoRevert))
		succeed(t, s)
		run(t, s, rollout("b", autoRevert))
		time.Sleep(9 * time.Minute)
		decide(t, s, true)
		time.Sleep(9 * time.Minute)
		require.Equal(t, nomad.DeploymentStatusRunning, latest(t, s).Status, "it has come on")
		d := latest(t, s)
		_, err := s.PauseDeployment(d.ID, true)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, nomad.DeploymentStatusPaused, latest(t, s).Status, "a pause does not count")
		_, err = s.PauseDeployment(d.ID, false)
		require.NoError(t, err)
		time.Sleep(10*time.Minute - time.Second)
		synctest.Wait()
		require.Equal(t, nomad.DeploymentStatusRunning, latest(t, s).Status)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "Failed due to progress deadline - rolling back to job version 0", s.Deployment(d.ID).StatusDescription)
		require.NoError(t, s.Close())
	})
}

func TestACanaryWaitsForItsPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withNode(t, "")
		run(t, s, rollout("a"))
		succeed(t, s)
		run(t, s, rollout("b", canaries))
		d := latest(t, s)
		require.Equal(t, structs.DeploymentNeedsPromotion, d.StatusDescription)
		require.Len(t, d.TaskGroups["g"].PlacedCanaries, 1)
		require.ElementsMatch(t, fields("a a a b"), versions(s))
		_, err := s.PromoteDeployment(d.ID, nil)
		require.ErrorContains(t, err, `Task group "g" has 0/1 healthy allocations`)
		_, err = s.PromoteDeployment(d.ID, []string{"other"})
		require.ErrorContains(t, err, "no canaries to promote")
		decide(t, s, true)
		time.Sleep(24 * time.Hour)
		require.Equal(t, nomad.DeploymentStatusRunning, latest(t, s).Status, "who waits for a person is not late")
		change, err := s.PromoteDeployment(d.ID, []string{"g"})
		require.NoError(t, err)
		require.Equal(t, triggerDeployment, s.Evaluation(change.EvalID).TriggeredBy)
		require.Equal(t, structs.DeploymentIsRunning, latest(t, s).StatusDescription)
		require.ElementsMatch(t, fields("a b b"), versions(s))
		succeed(t, s)
		_, err = s.PromoteDeployment(d.ID, nil)
		require.ErrorContains(t, err, "can't promote terminal deployment")
		require.NoError(t, s.Close())
	})
}

func TestACanaryPromotesItself(t *testing.T) {
	s := withNode(t, "")
	run(t, s, rollout("a"))
	succeed(t, s)
	run(t, s, rollout("b", autoPromote))
	require.Equal(t, structs.DeploymentAwaitsPromotion, latest(t, s).StatusDescription)
	decide(t, s, true)
	require.True(t, latest(t, s).TaskGroups["g"].Promoted)
	require.ElementsMatch(t, fields("a b b"), versions(s))
	succeed(t, s)
}

func TestWhatEndsADeploymentFromOutside(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*testing.T, *ControlPlane)
		status string
		why    string
	}{
		"a newer version": {func(t *testing.T, s *ControlPlane) { run(t, s, rollout("c")) }, nomad.DeploymentStatusCancelled, structs.DeploymentSuperseded},
		"a stop": {func(t *testing.T, s *ControlPlane) {
			_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web"})
			require.NoError(t, err)
		}, nomad.DeploymentStatusCancelled, structs.DeploymentJobStopped},
		"a purge": {func(t *testing.T, s *ControlPlane) {
			_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", Purge: true})
			require.NoError(t, err)
		}, nomad.DeploymentStatusCancelled, structs.DeploymentJobStopped},
		"a person": {func(t *testing.T, s *ControlPlane) {
			_, err := s.FailDeployment(latest(t, s).ID)
			require.NoError(t, err)
		}, nomad.DeploymentStatusFailed, structs.DeploymentMarkedFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := withNode(t, "")
			run(t, s, rollout("a"))
			succeed(t, s)
			run(t, s, rollout("b"))
			id := latest(t, s).ID
			c.end(t, s)
			d := s.Deployment(id)
			require.Equal(t, []string{c.status, c.why}, []string{d.Status, d.StatusDescription})
			for verb, change := range map[string]func() (*structs.DeploymentChange, error){
				"promote":                         func() (*structs.DeploymentChange, error) { return s.PromoteDeployment(id, nil) },
				"pause":                           func() (*structs.DeploymentChange, error) { return s.PauseDeployment(id, true) },
				"resume":                          func() (*structs.DeploymentChange, error) { return s.PauseDeployment(id, false) },
				"fail":                            func() (*structs.DeploymentChange, error) { return s.FailDeployment(id) },
				"unblock":                         func() (*structs.DeploymentChange, error) { return s.UnblockDeployment(id) },
				"set health of allocations for a": func() (*structs.DeploymentChange, error) { return s.SetAllocationHealth(id, []string{"x"}, nil) },
			} {
				_, err := change()
				require.EqualError(t, err, "can't "+verb+" terminal deployment")
			}
		})
	}
}

func TestAPersonSaysWhatIsHealthy(t *testing.T) {
	manual := func(u *nomad.UpdateStrategy) { u.HealthCheck = new("manual") }
	s := withNode(t, "")
	run(t, s, rollout("a", manual))
	d := latest(t, s)
	list := wanted(s, "web")
	for _, c := range []struct {
		healthy []string
		want    string
	}{
		{nil, "must specify at least one healthy/unhealthy allocation ID"},
		{[]string{"nothing"}, `unknown alloc "nothing"`},
	} {
		_, err := s.SetAllocationHealth(d.ID, c.healthy, nil)
		require.EqualError(t, err, c.want)
	}
	_, err := s.SetAllocationHealth(d.ID, []string{list[0].ID, list[1].ID}, nil)
	require.NoError(t, err)
	report(t, s, list[0], structs.ClientRunning) // of whose health the node says nothing
	require.Equal(t, 2, latest(t, s).TaskGroups["g"].HealthyAllocs)
	_, err = s.SetAllocationHealth(d.ID, []string{list[2].ID}, nil)
	require.NoError(t, err)
	require.Equal(t, nomad.DeploymentStatusSuccessful, latest(t, s).Status)

	run(t, s, rollout("b", manual, autoRevert))
	d = latest(t, s)
	next := wanted(s, "web")[2]
	change, err := s.SetAllocationHealth(d.ID, nil, []string{next.ID})
	require.NoError(t, err)
	require.Equal(t, uint64(0), *change.RevertedJobVersion)
	_, err = s.SetAllocationHealth(latest(t, s).ID, []string{next.ID}, nil)
	require.ErrorContains(t, err, "is not part of deployment")
}

// A node that has not heard of a change yet reports the health of before.
func TestTheHealthOfAnEarlierDeploymentDoesNotCount(t *testing.T) {
	s := withNode(t, "")
	run(t, s, rollout("a"))
	before := wanted(s, "web")
	succeed(t, s)
	scaled := rollout("a")
	scaled.TaskGroups[0].Count = new(2)
	run(t, s, scaled)
	for _, a := range before {
		require.NoError(t, s.ForNode().UpdateAllocations(t.Context(), a.NodeID, []*structs.AllocationState{decided(a, true)}))
	}
	require.Zero(t, latest(t, s).TaskGroups["g"].HealthyAllocs)
	succeed(t, s)
	require.Equal(t, 2, latest(t, s).TaskGroups["g"].HealthyAllocs)
}

func TestADeploymentGoesOnAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	s := withNode(t, path)
	run(t, s, rollout("a"))
	succeed(t, s)
	run(t, s, rollout("b"))
	decide(t, s, true)
	before := latest(t, s)
	require.NoError(t, s.Close())
	s = open(t, path)
	require.Equal(t, before, latest(t, s))
	require.ElementsMatch(t, fields("b b a"), versions(s))
	succeed(t, s)
	require.ElementsMatch(t, fields("b b b"), versions(s))
}

func TestALostMemoryStopsNothingAndPausesTheUpdate(t *testing.T) {
	s := withNode(t, "")
	run(t, s, rollout("a"))
	succeed(t, s)
	run(t, s, rollout("b", canaries))
	decide(t, s, true)
	known := &structs.NodeKnowledge{ControlPlane: "lost", Index: 500}
	for _, a := range wanted(s, "web") {
		known.Allocations = append(known.Allocations, structs.KnownAllocation{Allocation: a, State: &structs.AllocationState{
			ID: a.ID, ClientStatus: structs.ClientRunning, DeploymentStatus: a.DeploymentStatus,
		}})
	}
	other := open(t, "")
	got, err := other.ForNode().Adopt(t.Context(), testNode(), known)
	require.NoError(t, err)
	require.Len(t, got.Adopted, 4)
	require.ElementsMatch(t, fields("a a a b"), versions(other))
	d := latest(t, other)
	require.Equal(t, []string{nomad.DeploymentStatusPaused, structs.DeploymentLost}, []string{d.Status, d.StatusDescription})
	_, err = other.PauseDeployment(d.ID, false)
	require.NoError(t, err)
	decide(t, other, true)
	_, err = other.PromoteDeployment(d.ID, nil)
	require.NoError(t, err)
	succeed(t, other)
	require.ElementsMatch(t, fields("b b b"), versions(other))
}

func TestEndedDeploymentsAreForgottenButForTheLast(t *testing.T) {
	s := withNode(t, "")
	for _, v := range []string{"a", "b", "c"} {
		run(t, s, rollout(v))
	}
	succeed(t, s)
	require.Len(t, s.Deployments(), 3)
	s.CollectGarbage()
	require.Len(t, s.Deployments(), 1)
	require.Equal(t, uint64(2), latest(t, s).JobVersion)
	_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "web", Purge: true})
	require.NoError(t, err)
	s.CollectGarbage()
	require.Empty(t, s.Deployments())
	_, err = s.FailDeployment("gone")
	require.ErrorIs(t, err, errdefs.NotFound)
}
