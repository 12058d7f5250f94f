package schedule

import (
	"cmp"

	"github.com/wasmnode/wasmnode/structs"
)

// Algorithm is which of the nodes that have room is taken.
type Algorithm string

// The algorithms, with Nomad's names. The zero value is Binpack.
const (
	Binpack Algorithm = "binpack" // the node of which the most is taken
	Spread  Algorithm = "spread"  // the node of which the least is taken
)

// preferable orders nodes that have room: that with the fewest of the job's own
// allocations, and of those what the algorithm says.
func (s *scheduler) preferable(x, y *structs.Node) int {
	taken := cmp.Compare(s.cap.taken(y), s.cap.taken(x))
	if s.Algorithm == Spread {
		taken = -taken
	}
	return cmp.Or(cmp.Compare(s.cap.ofJob[x.ID], s.cap.ofJob[y.ID]), taken)
}

// taken is how much of a node's CPU and memory is taken, from 0 to 2.
func (c *capacity) taken(n *structs.Node) float64 {
	part := func(taken, has int) float64 {
		if has <= 0 {
			return 1
		}
		return float64(taken) / float64(has)
	}
	u, has := c.node(n.ID), capacityOf(n)
	return part(u.cpu, has.cpu) + part(u.memory, has.memory)
}
