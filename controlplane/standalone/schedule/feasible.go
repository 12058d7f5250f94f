package schedule

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// ready reports whether a node takes new allocations.
func ready(n *structs.Node) bool {
	return n.Status == structs.NodeReady && n.Eligibility != structs.NodeIneligible
}

const (
	defaultPool = "default"
	allPools    = "all"
)

func poolOf(job *nomad.Job) string { return cmp.Or(structs.Deref(job.NodePool), defaultPool) }

func inPool(job *nomad.Job, n *structs.Node) bool {
	pool := poolOf(job)
	return pool == allPools || pool == cmp.Or(n.Pool, defaultPool)
}

// inDatacenter matches the job's datacenters, which may have wildcards.
func inDatacenter(job *nomad.Job, n *structs.Node) bool {
	if len(job.Datacenters) == 0 {
		return true
	}
	return slices.ContainsFunc(job.Datacenters, func(pattern string) bool {
		ok, err := path.Match(pattern, n.Datacenter)
		return ok && err == nil
	})
}

// infeasible returns why a node may not run a group's allocation of an index now, with Nomad's texts; nothing
// when it may.
func (s *scheduler) infeasible(n *structs.Node, g *nomad.TaskGroup, index int, replaced *Alloc) []string {
	why := s.unmet(n, g, index, replaced)
	missing := false
	var unwell, absent []string
	for _, t := range g.Tasks {
		d := n.Drivers[t.Driver]
		switch {
		case d == nil || !d.Detected:
			missing = true
			if d == nil && len(n.LoadingPlugins) > 0 {
				absent = append(absent, fmt.Sprintf("driver %q may yet come: plugins are still loading: %s", t.Driver, loading(n)))
			}
		case !d.Healthy:
			missing = true
			text := fmt.Sprintf("driver %q is unhealthy", t.Driver)
			if d.HealthDescription != "" {
				text += ": " + d.HealthDescription
			}
			unwell = append(unwell, text)
		}
	}
	if missing {
		// Nomad's text is the same for both; the reason is worth a line of its own.
		why = append(why, "missing drivers")
		why = append(why, uniq(unwell)...)
		why = append(why, uniq(absent)...)
	}
	return append(why, uniq(missingDevices(n, g))...)
}

// maxLoadingNamed is how many of the files that are loading are named.
const maxLoadingNamed = 8

// loading names the files whose plugins are still loading on a node.
func loading(n *structs.Node) string {
	named := n.LoadingPlugins[:min(len(n.LoadingPlugins), maxLoadingNamed)]
	text := strings.Join(named, ", ")
	if more := len(n.LoadingPlugins) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// uniq returns the different texts, sorted.
func uniq(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// unmet returns which demands of the job file a node does not meet for the allocation of an index.
func (s *scheduler) unmet(n *structs.Node, g *nomad.TaskGroup, index int, replaced *Alloc) []string {
	suits := s.suits(n, g)
	why := append(slices.Clone(suits.unmet), s.unmetVolumes(n, g, index, replaced)...)
	for _, c := range suits.distinct {
		switch {
		case c.Operand == nomad.ConstraintDistinctProperty:
			if !s.distinct(c, n, g, replaced) {
				why = append(why, "distinct_property: "+c.LTarget)
			}
		case s.others(n.ID, g, replaced, slices.Contains(s.Job.Constraints, c)) > 0:
			why = append(why, nomad.ConstraintDistinctHosts)
		}
	}
	return uniq(why)
}

// suitability is what of a group's demands depends on the node alone, and not on what else is
// placed: it is found once, however many allocations there are.
type suitability struct {
	unmet    []string
	distinct []*nomad.Constraint // those that do depend on what else is placed
	affinity float64
}

// onNode is a group of the job on a node.
type onNode struct {
	group *nomad.TaskGroup
	node  *structs.Node
}

func (s *scheduler) suits(n *structs.Node, g *nomad.TaskGroup) *suitability {
	key := onNode{g, n}
	if known := s.suitable[key]; known != nil {
		return known
	}
	found := &suitability{affinity: s.affinity(n, g)}
	all := slices.Concat(s.Job.Constraints, g.Constraints)
	for _, t := range g.Tasks {
		all = append(all, t.Constraints...)
	}
	for _, c := range all {
		switch {
		case c.Operand == nomad.ConstraintDistinctProperty, c.Operand == nomad.ConstraintDistinctHosts:
			if c.Operand == nomad.ConstraintDistinctProperty || c.RTarget != "false" {
				found.distinct = append(found.distinct, c)
			}
		case !meets(c, n):
			found.unmet = append(found.unmet, fmt.Sprintf("%s %s %s", c.LTarget, c.Operand, c.RTarget))
		}
	}
	found.unmet = append(found.unmet, missingNetworks(n, g)...)
	for _, net := range g.Networks {
		if why := missingMode(n, net.Mode); why != "" {
			found.unmet = append(found.unmet, why)
		}
	}
	found.unmet = uniq(found.unmet)
	if s.suitable == nil {
		s.suitable = map[onNode]*suitability{}
	}
	s.suitable[key] = found
	return found
}

// others counts live allocations of the job (or of the group only) on a node, but for
// the one that is being replaced.
func (s *scheduler) others(nodeID string, g *nomad.TaskGroup, replaced *Alloc, wholeJob bool) (n int) {
	for _, a := range s.running() {
		if a.NodeID == nodeID && (replaced == nil || a.ID != replaced.ID) && (wholeJob || a.TaskGroup == *g.Name) {
			n++
		}
	}
	return n
}

// distinct reports whether fewer than the allowed number of the job's allocations
// are on nodes with the same value of a property.
func (s *scheduler) distinct(c *nomad.Constraint, n *structs.Node, g *nomad.TaskGroup, replaced *Alloc) bool {
	value, ok := resolve(c.LTarget, n)
	if !ok {
		return false
	}
	allowed := 1
	if c.RTarget != "" {
		var err error
		if allowed, err = strconv.Atoi(c.RTarget); err != nil {
			return false
		}
	}
	used := 0
	for _, other := range s.Nodes {
		if v, ok := resolve(c.LTarget, other); ok && v == value {
			used += s.others(other.ID, g, replaced, true)
		}
	}
	return used < allowed
}

// running returns the job's allocations that run or will: the old ones that stay and
// the ones just placed.
func (s *scheduler) running() (live []*structs.Allocation) {
	stopped := map[string]bool{}
	for _, stop := range s.res.Stop {
		stopped[stop.ID] = true
	}
	for _, a := range s.Allocs {
		if !a.Terminal() && !stopped[a.ID] {
			live = append(live, a.Allocation)
		}
	}
	for _, a := range s.res.Place {
		live = append(live, a.Allocation)
	}
	return live
}

// resolve returns what a constraint's target is on a node. Text that is not a reference
// is itself.
func resolve(target string, n *structs.Node) (value string, ok bool) {
	if !strings.HasPrefix(target, "${") || !strings.HasSuffix(target, "}") {
		return target, true
	}
	name := target[2 : len(target)-1]
	if key, is := strings.CutPrefix(name, "attr."); is {
		value, ok = n.Attributes[key]
		return value, ok
	}
	if key, is := strings.CutPrefix(name, "meta."); is {
		value, ok = n.Meta[key]
		return value, ok
	}
	switch name {
	case "node.unique.id":
		return n.ID, true
	case "node.unique.name":
		return n.Name, true
	case "node.datacenter":
		return n.Datacenter, true
	case "node.region":
		return n.Region, true
	case "node.class":
		return n.Class, true
	case "node.pool":
		return cmp.Or(n.Pool, defaultPool), true
	}
	return "", false
}

// Meets reports whether a node meets a constraint that depends on nothing but the node.
func Meets(c *nomad.Constraint, n *structs.Node) bool { return meets(c, n) }

// meets reports whether a node meets a constraint. A reference that the node does not
// have meets only != and is_not_set.
func meets(c *nomad.Constraint, n *structs.Node) bool {
	left, lok := resolve(c.LTarget, n)
	right, rok := resolve(c.RTarget, n)
	switch c.Operand {
	case nomad.ConstraintAttributeIsSet:
		return lok
	case nomad.ConstraintAttributeIsNotSet:
		return !lok
	case "!=", "not":
		return lok != rok || left != right
	}
	if !lok || !rok {
		return false
	}
	switch c.Operand {
	case "=", "==", "is", "":
		return left == right
	case "<", "<=", ">", ">=":
		return ordered(c.Operand, left, right)
	}
	return meetsText(c.Operand, left, right)
}

// meetsText reports whether two texts meet an operand that knows more of them than
// their order.
func meetsText(operand, left, right string) bool {
	switch operand {
	case nomad.ConstraintVersion:
		return versionMeets(left, right)
	case nomad.ConstraintSemver:
		return semverMeets(left, right)
	case nomad.ConstraintRegex:
		re, err := regexp.Compile(right)
		return err == nil && re.MatchString(left)
	case nomad.ConstraintSetContains, nomad.ConstraintSetContainsAll:
		have := set(left)
		return !slices.ContainsFunc(set(right), func(s string) bool { return !slices.Contains(have, s) })
	case nomad.ConstraintSetContainsAny:
		have := set(left)
		return slices.ContainsFunc(set(right), func(s string) bool { return slices.Contains(have, s) })
	}
	return false
}

// ordered compares as integers or numbers where both sides are, else as text.
func ordered(operand, left, right string) bool {
	var c int
	li, lerr := strconv.ParseInt(left, 10, 64)
	ri, rerr := strconv.ParseInt(right, 10, 64)
	lf, lferr := strconv.ParseFloat(left, 64)
	rf, rferr := strconv.ParseFloat(right, 64)
	switch {
	case lerr == nil && rerr == nil:
		c = cmp.Compare(li, ri)
	case lferr == nil && rferr == nil:
		c = cmp.Compare(lf, rf)
	default:
		c = strings.Compare(left, right)
	}
	switch operand {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func versionMeets(v, constraint string) bool {
	have, err := version.NewVersion(v)
	if err != nil {
		return false
	}
	want, err := version.NewConstraint(constraint)
	return err == nil && want.Check(have)
}

var semverTerm = regexp.MustCompile(`^(=|!=|>=|<=|>|<)?\s*(\S+)$`)

// semverMeets compares by semantic versioning's order, in which a pre-release comes
// before its release and is otherwise like any version.
func semverMeets(v, constraint string) bool {
	have, err := version.NewSemver(v)
	if err != nil {
		return false
	}
	for _, term := range set(constraint) {
		m := semverTerm.FindStringSubmatch(term)
		if m == nil {
			return false
		}
		want, err := version.NewSemver(m[2])
		if err != nil {
			return false
		}
		c := have.Compare(want)
		ok := map[string]bool{"": c == 0, "=": c == 0, "!=": c != 0, ">": c > 0, "<": c < 0, ">=": c >= 0, "<=": c <= 0}[m[1]]
		if !ok {
			return false
		}
	}
	return true
}

func set(list string) (items []string) {
	for item := range strings.SplitSeq(list, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	return items
}
