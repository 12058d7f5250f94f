package schedule

import (
	"math"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Taken is a running total of what allocations take of a node: a decision that is given one
// does not look at each of them. It may stand on another, which it does not change: then it
// is the sum of both. It is for one goroutine, but what it stands on may be read by many.
type Taken struct {
	under      *Taken // nil: nothing
	sum        amounts
	things     map[thing]int // how many have each
	priorities map[int]int   // how many are of a job of each
}

// NewTaken returns a total that is the same as another, which may be nil, until something is
// added or removed.
func NewTaken(under *Taken) *Taken {
	return &Taken{under: under, things: map[thing]int{}, priorities: map[int]int{}}
}

// InTotal reports whether an allocation counts in a total: it has not ended, waits for no
// other, and none waits for it. Who waits shares what it takes with those that it waits for,
// so that a decision has to know each. All who wait are pending, and who is waited for is to
// stop, was preempted or has a successor.
func InTotal(a *structs.Allocation) bool {
	if a.Terminal() || a.NextAllocation != "" || a.PreemptedByAllocation != "" {
		return false
	}
	if a.ClientStatus == structs.ClientPending {
		for range a.WaitsFor {
			return false
		}
	}
	return true
}

// Add counts an allocation.
func (t *Taken) Add(a *structs.Allocation) { t.count(a, 1) }

// Remove takes back what an allocation counted.
func (t *Taken) Remove(a *structs.Allocation) { t.count(a, -1) }

func (t *Taken) count(a *structs.Allocation, by int) {
	of := amountsOf(a.Resources)
	t.sum = t.sum.plus(amounts{by * of.cpu, by * of.memory, by * of.disk})
	for what := range thingsOf(&a.Resources) {
		add(t.things, what, by)
	}
	add(t.priorities, priorityOf(a.Job), by)
}

func add[K comparable](counts map[K]int, key K, by int) {
	if n := counts[key] + by; n != 0 {
		counts[key] = n
	} else {
		delete(counts, key)
	}
}

// total is the sum of amounts; that of nil is nothing.
func (t *Taken) total() (sum amounts) {
	for ; t != nil; t = t.under {
		sum = sum.plus(t.sum)
	}
	return sum
}

// has reports whether any has a thing.
func (t *Taken) has(what thing) bool {
	n := 0
	for ; t != nil; t = t.under {
		n += t.things[what]
	}
	return n > 0
}

// lowest is the priority of the least important job that counts.
func (t *Taken) lowest() int {
	counts := map[int]int{}
	for ; t != nil; t = t.under {
		for priority, n := range t.priorities {
			counts[priority] += n
		}
	}
	lowest := math.MaxInt
	for priority, n := range counts {
		if n > 0 {
			lowest = min(lowest, priority)
		}
	}
	return lowest
}

// thing is what only one may have, or several that agreed to share it.
type thing struct {
	kind   kind
	number int
	device deviceKey
}

type kind byte

const (
	aPort kind = iota
	aCore
	aDevice
)

func portThing(value int) thing     { return thing{kind: aPort, number: value} }
func coreThing(core int) thing      { return thing{kind: aCore, number: core} }
func deviceThing(d deviceKey) thing { return thing{kind: aDevice, device: d} }

// thingsOf calls yield with each thing that an allocation has.
func thingsOf(r *structs.AllocatedResources) func(yield func(thing) bool) {
	return func(yield func(thing) bool) {
		for _, p := range r.Ports {
			if !yield(portThing(p.Value)) {
				return
			}
		}
		for _, t := range r.Tasks {
			for _, core := range t.Cores {
				if !yield(coreThing(core)) {
					return
				}
			}
			for _, d := range t.Devices {
				for _, key := range keysOf(d) {
					if !yield(deviceThing(key)) {
						return
					}
				}
			}
		}
	}
}

func priorityOf(j *nomad.Job) int {
	if j == nil || j.Priority == nil {
		return nomad.JobDefaultPriority
	}
	return *j.Priority
}
