package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/structs"
)

// service is a version of a service whose tasks differ from version to version.
func service(version uint64, count int, update *nomad.UpdateStrategy, change ...func(*nomad.Job)) *nomad.Job {
	return testJob("service", append([]func(*nomad.Job){atVersion(version), count1(count), func(j *nomad.Job) {
		j.TaskGroups[0].Update = update
		j.TaskGroups[0].Tasks[0].User = fmt.Sprint("v", version)
		j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(10)
		j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Delay: new(time.Second), DelayFunction: new("constant"), Unlimited: new(true)}
	}}, change...)...)
}

// deployment is the job's last, which is changed.
func (c *cluster) deploy(change func(*structs.Deployment)) {
	d := c.deployments["job"].Copy()
	change(d)
	c.deployments["job"] = d
}

// decideHealth has the live allocations of the last deployment become healthy or not, where
// that is not decided.
func (c *cluster) decideHealth(healthy bool, which func(*Alloc) bool) (n int) {
	for _, a := range c.sorted() {
		d := c.deployments["job"]
		if a.Terminal() || d == nil || a.DeploymentID != d.ID || !which(a) || a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil {
			continue
		}
		b := c.change(a.ID)
		b.ClientStatus = structs.ClientRunning
		b.DeploymentStatus = &structs.DeploymentStatus{Healthy: &healthy, Canary: a.DeploymentStatus != nil && a.DeploymentStatus.Canary}
		n++
	}
	return n
}

func every(*Alloc) bool { return true }

// promote is what the control plane does to canaries.
func (c *cluster) promote() {
	c.deploy(func(d *structs.Deployment) { d.TaskGroups["g"].Promoted = true })
	for _, a := range c.sorted() {
		if a.DeploymentStatus != nil && a.DeploymentStatus.Canary && !a.Terminal() {
			c.change(a.ID).DeploymentStatus.Canary = false
		}
	}
}

// picture is the live allocations: index (of a system job: node), version, and whether it is
// a canary or healthy.
func (c *cluster) picture() string {
	var all []string
	for _, a := range c.sorted() {
		if a.Terminal() {
			continue
		}
		text := fmt.Sprintf("%d:v%d", indexOf(a.Name), *a.Job.JobModifyIndex)
		if PerNode(a.Job) {
			text = fmt.Sprintf("%s:v%d", a.NodeID, *a.Job.JobModifyIndex)
		}
		if s := a.DeploymentStatus; s != nil && s.Canary {
			text += "c"
		}
		if s := a.DeploymentStatus; s != nil && s.Healthy != nil {
			text += map[bool]string{true: "+", false: "-"}[*s.Healthy]
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// settled is a service of which the first version runs and is healthy.
func settled(t *testing.T, count int, update *nomad.UpdateStrategy) *cluster {
	c := newCluster(t, testNode("n1"))
	first := service(1, count, update)
	require.Len(t, c.run(first).Place, count, "the first version is placed at once")
	c.decideHealth(true, every)
	require.True(t, c.run(first).Completed)
	return c
}

func parallel(n int) *nomad.UpdateStrategy { return &nomad.UpdateStrategy{MaxParallel: &n} }

func TestARollingUpdateGoesOnWithTheHealthOfWhatItPlaced(t *testing.T) {
	c := settled(t, 3, parallel(1))
	next := service(2, 3, parallel(1))
	for _, want := range []string{"0:v2 1:v1+ 2:v1+", "0:v2+ 1:v2 2:v1+", "0:v2+ 1:v2+ 2:v2"} {
		res := c.run(next)
		require.Equal(t, want, c.picture())
		require.False(t, res.Completed)
		require.Equal(t, uint64(1), res.Desired["g"].DestructiveUpdate)
		require.False(t, c.run(next).Changes(), "nothing goes on before it is healthy")
		c.decideHealth(true, every)
	}
	require.True(t, c.run(next).Completed)
	require.False(t, c.run(next).Changes())
}

func TestHowManyAreReplacedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		update *nomad.UpdateStrategy
		want   int
	}{
		"one":                        {parallel(1), 1},
		"some":                       {parallel(3), 3},
		"more than there are":        {parallel(50), 4},
		"all, and nobody watches":    {parallel(0), 4},
		"none before it is promoted": {&nomad.UpdateStrategy{MaxParallel: new(2), Canary: new(1)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, testNode("n1"))
			w.run(service(1, 4, c.update))
			w.decideHealth(true, every)
			res := w.run(service(2, 4, c.update))
			require.Equal(t, c.want, len(res.Stop))
			require.Equal(t, *c.update.MaxParallel == 0, w.deployments["job"] == nil, "without a bound there is no deployment")
		})
	}
}

func TestCanariesAreBesideTheOldOnesUntilTheyArePromoted(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(2)}
	c := settled(t, 3, update)
	next := service(2, 3, update)
	c.run(next)
	require.Equal(t, "0:v1+ 0:v2c 1:v1+ 1:v2c 2:v1+", c.picture())
	c.decideHealth(true, every)
	require.False(t, c.run(next).Changes(), "a person decides")
	c.promote()
	c.run(next)
	require.Equal(t, "0:v2+ 1:v2+ 2:v2", c.picture())
	c.decideHealth(true, every)
	require.True(t, c.run(next).Completed)
}

func TestOneCanaryOfOneIsBesideTheOldOne(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	c := settled(t, 1, update)
	c.run(service(2, 1, update))
	require.Equal(t, "0:v1+ 0:v2c", c.picture())
	c.decideHealth(true, every)
	c.promote()
	require.True(t, c.run(service(2, 1, update)).Completed)
	require.Equal(t, "0:v2+", c.picture())
}

func TestMoreCanariesThanPlacesLeaveWithThePromotion(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(3)}
	c := settled(t, 2, update)
	c.run(service(2, 2, update))
	require.Equal(t, "0:v1+ 0:v2c 1:v1+ 1:v2c 2:v2c", c.picture())
	c.decideHealth(true, every)
	c.promote()
	c.run(service(2, 2, update))
	require.Equal(t, "0:v2+ 1:v2+", c.picture())
}

func TestWhatADeploymentThatDoesNotGoOnLeaves(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	for name, c := range map[string]struct {
		change func(*cluster)
		job    *nomad.Job
		want   string
	}{
		"paused":            {func(c *cluster) { c.deploy(status(nomad.DeploymentStatusPaused)) }, service(2, 3, update), "0:v1+ 0:v2c 1:v1+ 2:v1+"},
		"failed":            {func(c *cluster) { c.deploy(status(nomad.DeploymentStatusFailed)) }, service(2, 3, update), "0:v1+ 1:v1+ 2:v1+"},
		"superseded":        {func(*cluster) {}, service(3, 3, update), "0:v1+ 0:v3c 1:v1+ 2:v1+"},
		"an old one failed": {func(c *cluster) { c.fail("0:v1+") }, service(2, 3, update), "0:v1 0:v2c 1:v1+ 2:v1+"},
		"an old one was stopped": {func(c *cluster) { c.find("1:v1+").DesiredStatus = structs.DesiredStop },
			service(2, 3, update), "0:v1+ 0:v2c 1:v1 2:v1+"},
		"a canary failed": {func(c *cluster) { c.fail("0:v2c") }, service(2, 3, update), "0:v1+ 0:v2c 1:v1+ 2:v1+"},
	} {
		t.Run(name, func(t *testing.T) {
			w := settled(t, 3, update)
			w.run(service(2, 3, update))
			c.change(w)
			w.now = w.now.Add(time.Minute)
			w.run(c.job)
			require.Equal(t, c.want, w.picture())
			require.False(t, w.run(c.job).Changes())
		})
	}
}

// TestAVersionIsPlacedThoughAnotherLacksRoom: while canaries run, what was stopped comes back
// as the old version, which may need more.
func TestAVersionIsPlacedThoughAnotherLacksRoom(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	big := func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(400) }
	c := newCluster(t, testNode("n1"))
	c.run(service(1, 2, update, big))
	c.decideHealth(true, every)
	stopped := c.find("1:v1+")
	stopped.DesiredStatus, stopped.ClientStatus = structs.DesiredEvict, structs.ClientComplete
	c.nodes[0].Resources.MemoryMB = 500
	res := c.run(service(2, 2, update))
	require.Equal(t, "0:v1+ 0:v2c", c.picture())
	require.Equal(t, map[string]int{"memory": 1}, res.Failed["g"].DimensionExhausted)
	require.Equal(t, 1, res.Queued["g"])
}

func status(s string) func(*structs.Deployment) { return func(d *structs.Deployment) { d.Status = s } }

// find returns the live allocation that the picture shows so, to be changed.
func (c *cluster) find(shown string) *Alloc {
	for _, a := range c.sorted() {
		alone := &cluster{allocs: map[string]*Alloc{a.ID: a}}
		if alone.picture() == shown {
			return c.change(a.ID)
		}
	}
	require.Fail(c.t, "there is no "+shown)
	return nil
}

func (c *cluster) fail(shown string) {
	a, no := c.find(shown), false
	a.ClientStatus, a.ModifyTime = structs.ClientFailed, c.now.UnixNano()
	if s := a.DeploymentStatus; s != nil && s.Healthy == nil {
		s.Healthy = &no
	}
}

func TestWhatEndedIsStoppedOnceAnotherVersionHasItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		kind    string
		update  *nomad.UpdateStrategy
		ended   structs.ClientStatus
		user    string
		memory  int
		stopped bool
	}{
		"failed":                 {"service", parallel(1), structs.ClientFailed, "new", 10, true},
		"complete":               {"service", parallel(1), structs.ClientComplete, "new", 10, true},
		"not watched":            {"service", parallel(0), structs.ClientFailed, "new", 10, true},
		"of a batch job":         {"batch", nil, structs.ClientFailed, "new", 10, false},
		"no room":                {"service", parallel(1), structs.ClientFailed, "new", 1 << 30, false},
		"the same but for texts": {"service", parallel(1), structs.ClientFailed, "v1", 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			never := func(j *nomad.Job) {
				j.Type = &c.kind
				j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}
			}
			w := newCluster(t, testNode("n1"))
			w.run(service(1, 1, c.update, never))
			old := w.sorted()[0].ID
			w.end(old, c.ended)
			res := w.run(service(2, 1, c.update, never, func(j *nomad.Job) {
				j.TaskGroups[0].Tasks[0].User, j.TaskGroups[0].Tasks[0].Resources.MemoryMB = c.user, &c.memory
			}))
			if !c.stopped {
				require.Empty(t, res.Stop)
				return
			}
			require.Equal(t, []Stop{{ID: old, Description: descUpdating}}, res.Stop)
			require.Equal(t, map[string]string{old: res.Place[0].ID}, res.Replaced)
			require.Equal(t, uint64(1), res.Desired["g"].DestructiveUpdate)
			require.Empty(t, res.Place[0].Reschedules, "another version begins anew")
		})
	}
}

func TestNothingMoreIsRiskedWhenAnAllocationIsUnhealthy(t *testing.T) {
	c := settled(t, 4, parallel(2))
	next := service(2, 4, parallel(2))
	c.run(next)
	require.Equal(t, "0:v2 1:v2 2:v1+ 3:v1+", c.picture())
	c.decideHealth(true, func(a *Alloc) bool { return indexOf(a.Name) == 0 })
	c.decideHealth(false, func(a *Alloc) bool { return indexOf(a.Name) == 1 })
	require.False(t, c.run(next).Changes())
	c.end(c.find("1:v2-").ID, structs.ClientFailed)
	c.run(next)
	require.Equal(t, "0:v2+ 2:v1+ 3:v1+", c.picture(), "it waits for its delay")
	c.now = c.now.Add(time.Minute)
	c.run(next)
	require.Equal(t, "0:v2+ 1:v2 2:v2 3:v1+", c.picture(), "its successor is one of the two")
}

func TestAnUpdateInPlaceIsPartOfADeployment(t *testing.T) {
	c := settled(t, 2, parallel(1))
	scaled := service(2, 3, parallel(1), func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].User = "v1" })
	res := c.run(scaled)
	require.Len(t, res.Update, 2)
	require.Empty(t, res.Stop)
	require.Equal(t, "0:v2 1:v2 2:v2", c.picture(), "their health is asked for again")
	c.decideHealth(true, every)
	require.True(t, c.run(scaled).Completed)
}

// A deployment that is lost was paused, or has failed, for all that is known.
func TestADeploymentThatIsLostIsAPersonsToResume(t *testing.T) {
	update := &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	c := settled(t, 3, update)
	c.run(service(2, 3, update))
	before := c.picture()
	delete(c.deployments, "job")
	res := c.run(service(2, 3, update))
	require.Empty(t, res.Stop)
	require.Empty(t, res.Place)
	require.Equal(t, nomad.DeploymentStatusPaused, res.Deployment.Status)
	require.Equal(t, before, c.picture(), "the canary is one still")
	require.False(t, c.run(service(2, 3, update)).Changes())
	c.deploy(status(nomad.DeploymentStatusRunning))
	c.decideHealth(true, every)
	c.promote()
	c.run(service(2, 3, update))
	require.Equal(t, "0:v2+ 1:v2 2:v1+", c.picture())
}

func TestWhatRunsIsNotDisturbedByTheLackOfADeployment(t *testing.T) {
	c := settled(t, 3, parallel(1))
	delete(c.deployments, "job")
	for _, a := range c.sorted() {
		c.change(a.ID).DeploymentID = "" // of an earlier program
	}
	require.False(t, c.run(service(1, 3, parallel(1))).Changes())
}

// rolling is a service, or a system job, to which random things happen while it is updated.
type rolling struct {
	*cluster
	build func(version uint64, count int, update *nomad.UpdateStrategy, change ...func(*nomad.Job)) *nomad.Job
	job   *nomad.Job
	// canary is the least number of canaries but for none, in the job's measure.
	canary int
}

func (w *rolling) register(t *rapid.T) {
	version := uint64(1)
	if w.job != nil {
		version = *w.job.JobModifyIndex + 1
	}
	update := parallel(rapid.IntRange(1, 3).Draw(t, "max_parallel"))
	update.Canary = new(rapid.IntRange(0, 2).Draw(t, "canary") * w.canary)
	w.job = w.build(version, rapid.IntRange(1, 6).Draw(t, "count"), update, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].User = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user")
	})
}

func (w *rolling) health(t *rapid.T) {
	w.decideHealth(rapid.IntRange(0, 3).Draw(t, "healthy") > 0, func(*Alloc) bool { return rapid.Bool().Draw(t, "now") })
}

func (w *rolling) fail(t *rapid.T) {
	for _, a := range w.sorted() {
		if !a.Terminal() && rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
			no, b := false, w.change(a.ID)
			w.end(a.ID, structs.ClientFailed)
			if b.DeploymentStatus == nil || b.DeploymentStatus.Healthy == nil {
				s := structs.DeploymentStatus{Healthy: &no}
				s.Canary = b.DeploymentStatus != nil && b.DeploymentStatus.Canary
				w.change(a.ID).DeploymentStatus = &s
			}
		}
	}
}

func (w *rolling) person(t *rapid.T) {
	d := w.deployments["job"]
	if d == nil || !d.Active() || d.JobSpecModifyIndex != *w.job.JobModifyIndex {
		return
	}
	switch rapid.IntRange(0, 4).Draw(t, "person") {
	case 0:
		w.deploy(status(nomad.DeploymentStatusPaused))
	case 1:
		w.deploy(status(nomad.DeploymentStatusFailed))
	case 2:
		w.promote()
	default:
		w.deploy(status(nomad.DeploymentStatusRunning))
	}
}

// standing counts the allocations that serve: those of earlier versions that are live, and
// those of the current one that are healthy.
func (w *rolling) standing() (n int) {
	for _, a := range w.sorted() {
		old := *a.Job.JobModifyIndex != *w.job.JobModifyIndex
		healthy := a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy
		beside := isCanary(a) && !PerNode(w.job)
		if !a.Terminal() && !beside && (old || healthy) {
			n++
		}
	}
	return n
}

func (w *rolling) decide(t *rapid.T) {
	if w.job == nil {
		return
	}
	res := w.run(w.job)
	d, g := w.deployments["job"], w.job.TaskGroups[0]
	state := d.TaskGroups["g"]
	destroyed, canaries := 0, 0
	for _, s := range res.Stop {
		if s.Description == descUpdating && !w.allocs[s.ID].ClientStatus.Terminal() {
			destroyed++
		}
	}
	for _, a := range w.sorted() {
		if !a.Terminal() && isCanary(a) && a.DeploymentID == d.ID {
			canaries++
		}
	}
	require.LessOrEqual(t, destroyed, *g.Update.MaxParallel)
	if destroyed > 0 {
		require.GreaterOrEqual(t, w.standing(), w.places()-*g.Update.MaxParallel, "the update took more than it may: %s", w.picture())
		require.Equal(t, nomad.DeploymentStatusRunning, d.Status)
		require.False(t, state.Canarying() && !PerNode(w.job), "before the promotion nothing old is stopped")
	}
	require.LessOrEqual(t, canaries, state.DesiredCanaries)
	for _, a := range res.Place {
		current := *a.Job.JobModifyIndex == *w.job.JobModifyIndex
		require.True(t, current || !d.Active() || d.Status == nomad.DeploymentStatusPaused || state.Canarying(), "an old version is placed while the new one may come")
	}
	require.False(t, w.run(w.job).Changes(), "deciding again decides the same")
}

// places is how many allocations the job is to have.
func (w *rolling) places() int {
	if PerNode(w.job) {
		return len(w.nodes) * *w.job.TaskGroups[0].Count
	}
	return *w.job.TaskGroups[0].Count
}

// endStopped has all that is to end have ended.
func (w *rolling) endStopped(*rapid.T) {
	for _, a := range w.sorted() {
		if a.ServerTerminal() && !a.ClientStatus.Terminal() {
			w.end(a.ID, structs.ClientComplete)
		}
	}
}

// converge makes everything well from now on.
func (w *rolling) converge(t *rapid.T) {
	w.register(t)
	for range 200 {
		w.now = w.now.Add(time.Minute)
		w.endStopped(t)
		res := w.run(w.job)
		if res.Completed {
			for _, a := range w.sorted() {
				require.True(t, a.Terminal() || *a.Job.JobModifyIndex == *w.job.JobModifyIndex, w.picture())
			}
			require.Len(t, w.wanted(), w.places())
			return
		}
		w.decideHealth(true, every)
		if w.deployments["job"].RequiresPromotion() {
			w.promote()
		}
	}
	require.Fail(t, "it does not come to an end", w.picture())
}

func TestWhateverHappensAnUpdateKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &rolling{cluster: newCluster(t, testNode("n1")), build: service, canary: 1}
		if rapid.Bool().Draw(t, "system") {
			w.build, w.canary = everywhere, 30
			for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
				w.nodes = append(w.nodes, testNode(fmt.Sprint("m", i)))
			}
		}
		w.register(t)
		t.Repeat(map[string]func(*rapid.T){
			"register": w.register,
			"health":   w.health,
			"fail":     w.fail,
			"person":   w.person,
			"stopped":  w.endStopped,
			"time":     func(*rapid.T) { w.now = w.now.Add(17 * time.Second) },
			"":         w.decide,
		})
		w.converge(t)
	})
}
