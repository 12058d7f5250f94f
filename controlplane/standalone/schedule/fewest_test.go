package schedule

import (
	"fmt"
	"math/rand"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// TestAtMostOneMoreIsPreemptedThanIsNeeded has nodes that are full of random jobs, and one
// that takes the place of some: each set of the others is tried.
func TestAtMostOneMoreIsPreemptedThanIsNeeded(t *testing.T) {
	for seed := range int64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { preemptOne(t, rand.New(rand.NewSource(seed))) })
	}
}

func preemptOne(t *testing.T, random *rand.Rand) {
	w := &crowd{cluster: newCluster(t, gpuNode("n1")), jobs: map[string]*nomad.Job{}, stopped: map[string]bool{}}
	most := 50 + random.Intn(250)
	for range 10 {
		w.version++
		w.run(wants(random, w.version, 1+9*random.Intn(2), most))
	}
	w.version++
	w.preempt = true
	j := wants(random, w.version, 90, min(900, most*(2+random.Intn(4))))
	in := w.input(j, false)
	if res := w.run(j); len(res.Preempted) > 0 {
		w.checkFewest(t, in, res.Place[0])
	}
}

// wants is a job of one allocation that wants up to so much of each thing.
func wants(random *rand.Rand, version uint64, important, most int) *nomad.Job {
	return testJob("service", named(fmt.Sprint("job-", version)), atVersion(version), priority(important), func(j *nomad.Job) {
		some := func() int { return 10 + random.Intn(most) }
		uses(some(), some())(j)
		usesDisk(some())(j)
		if random.Intn(4) == 0 {
			usesCores(1 + random.Intn(1+most/200))(j)
			j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(some())
		}
		if random.Intn(4) == 0 {
			asks(ask("nvidia/gpu", uint64(1+random.Intn(min(2, 1+most/300)))))(j)
		}
		if random.Intn(4) == 0 {
			staticPorts(80 + random.Intn(3))(j)
		}
	})
}
