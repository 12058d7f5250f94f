package acl

import (
	"slices"
	"strings"
)

// Level is how much a caller may do whatever rules say, or has to be allowed to for what it asks.
// A higher level includes the lower ones.
type Level int

// The levels.
const (
	Anyone  Level = iota // without a token
	Reader               // a token that may read everything
	Manager              // a token that may do everything
)

// Rights are what a caller may do. They do not change. Of nil nothing is allowed.
type Rights struct {
	level                         Level
	namespaces, variables         grants
	pools, volumes                grants
	agent, node, operator, plugin string
	operatorCapabilities          []string
	// own reports whether a variable is the caller's to read and list, unless a rule names its
	// path; nil: none is.
	own func(namespace, path string) bool
}

// Everything are the rights of everybody where ACLs are off.
func Everything() *Rights { return &Rights{level: Manager} }

// RightsOf are those of a level with what rules add. Nil rules add nothing.
func RightsOf(level Level, rules ...*Rules) *Rights {
	r := &Rights{level: level, namespaces: grants{}, variables: grants{}, pools: grants{}, volumes: grants{}}
	for _, of := range rules {
		if of != nil {
			r.add(of)
		}
	}
	return r
}

// WithOwn are the rights with the variables that are the caller's own to read and list.
func (r *Rights) WithOwn(own func(namespace, path string) bool) *Rights {
	c := *r
	c.own = own
	return &c
}

func (r *Rights) add(of *Rules) {
	for _, n := range of.Namespaces {
		r.namespaces.add(n.Name, n.capabilities())
		if n.Variables == nil || r.namespaces[n.Name][deny] {
			continue
		}
		for _, p := range n.Variables.Paths {
			caps := slices.Clone(p.Capabilities)
			if slices.Contains(caps, read) {
				caps = append(caps, list)
			}
			r.variables.add(variable(n.Name, p.Path), caps)
		}
	}
	for _, p := range of.NodePools {
		caps := slices.Clone(p.Capabilities)
		switch p.Policy {
		case deny, read:
			caps = append(caps, p.Policy)
		case write:
			caps = append(caps, read, write, "delete")
		}
		r.pools.add(p.Name, caps)
	}
	for _, v := range of.HostVolumes {
		caps := slices.Clone(v.Capabilities)
		switch v.Policy {
		case deny:
			caps = append(caps, deny)
		case read:
			caps = append(caps, "mount-readonly")
		case write:
			caps = append(caps, "mount-readonly", "mount-readwrite")
		}
		r.volumes.add(v.Name, caps)
	}
	r.agent, r.node = most(r.agent, of.Agent), most(r.node, of.Node)
	r.operator, r.plugin = most(r.operator, of.Operator), most(r.plugin, of.Plugin)
	if o := of.Operator; o != nil {
		r.operatorCapabilities = append(append(r.operatorCapabilities, o.Capabilities...), operatorLevels[o.Policy]...)
	}
}

// most is the higher of two levels. To deny is the highest.
func most(a string, rule *Rule) string {
	if rule == nil {
		return a
	}
	order := []string{"", list, read, write, deny}
	if slices.Index(order, rule.Policy) > slices.Index(order, a) {
		return rule.Policy
	}
	return a
}

// Level is the level that the rights include, whatever rules add.
func (r *Rights) Level() Level {
	if r == nil {
		return Anyone
	}
	return r.level
}

// Namespace reports whether one of some capabilities is allowed in a namespace. In "*" it is
// where it is in any.
func (r *Rights) Namespace(name string, anyOf ...string) bool {
	switch {
	case r == nil:
		return false
	case r.level == Manager:
		return true
	case r.level == Reader && slices.ContainsFunc(anyOf, reads):
		return true
	}
	for _, capability := range anyOf {
		if name == "*" && r.namespaces.anywhere(capability) || r.namespaces.of(name)[capability] {
			return true
		}
	}
	return false
}

// reads reports whether a capability is included in reading everything.
func reads(capability string) bool {
	return slices.Contains(readingNamespace, capability) || capability == "read-logs" || capability == "read-fs"
}

// SeesNamespace reports whether anything is allowed in a namespace.
func (r *Rights) SeesNamespace(name string) bool {
	if r.Level() >= Reader {
		return true
	}
	if r == nil {
		return false
	}
	caps := r.namespaces.of(name)
	return len(caps) > 0 && !caps[deny]
}

// Variable reports whether an operation, "list", "read", "write" or "destroy", is allowed with
// what is at a path.
func (r *Rights) Variable(namespace, path, operation string) bool {
	if r.Level() == Manager {
		return true
	}
	if r == nil {
		return false
	}
	name := variable(namespace, path)
	if r.own != nil && r.variables.named(name) == nil && r.own(namespace, path) && (operation == read || operation == list) {
		return true
	}
	return r.variables.of(name)[operation]
}

// SomeVariable reports whether an operation is allowed with any variable.
func (r *Rights) SomeVariable(operation string) bool {
	return r.Level() == Manager || r != nil && r.variables.anywhere(operation)
}

// variable is the name of what is at a path of a namespace, or of a pattern of both.
func variable(namespace, path string) string { return namespace + "\x00" + path }

// Pool reports whether an operation, "read", "write" or "delete", is allowed with a node pool.
func (r *Rights) Pool(name, operation string) bool {
	switch {
	case r == nil:
		return false
	case r.level == Manager, r.level == Reader && operation == read:
		return true
	}
	return r.pools.of(name)[operation]
}

// HostVolume reports whether a host volume may be mounted, to be read only or to be written to.
func (r *Rights) HostVolume(name string, writable bool) bool {
	if r.Level() == Manager {
		return true
	}
	if r == nil {
		return false
	}
	caps := r.volumes.of(name)
	return caps["mount-readwrite"] || !writable && caps["mount-readonly"]
}

// Node reports whether nodes may be read or, with changing, changed.
func (r *Rights) Node(changing bool) bool { return r != nil && r.allows(r.node, changing) }

// Agent reports whether the agent may be read or, with changing, changed.
func (r *Rights) Agent(changing bool) bool { return r != nil && r.allows(r.agent, changing) }

// Operator reports whether what operators decide may be read or, with changing, changed.
func (r *Rights) Operator(changing bool) bool { return r != nil && r.allows(r.operator, changing) }

// Plugin reports whether plugins may be read.
func (r *Rights) Plugin() bool { return r != nil && (r.plugin == list || r.allows(r.plugin, false)) }

// OperatorCan reports whether a capability of operators is allowed.
func (r *Rights) OperatorCan(capability string) bool {
	return r != nil && (r.level == Manager ||
		slices.Contains(r.operatorCapabilities, capability) && !slices.Contains(r.operatorCapabilities, deny) && r.operator != deny)
}

func (r *Rights) allows(level string, changing bool) bool {
	switch {
	case r.level == Manager, r.level == Reader && !changing:
		return true
	case changing:
		return level == write
	}
	return level == read || level == write
}

// grants are capabilities by the pattern of what they are for.
type grants map[string]map[string]bool

// add adds capabilities. To deny takes all others.
func (g grants) add(pattern string, capabilities []string) {
	if g[pattern] == nil {
		g[pattern] = map[string]bool{}
	}
	for _, c := range capabilities {
		g[pattern][c] = true
	}
	if g[pattern][deny] {
		g[pattern] = map[string]bool{deny: true}
	}
}

// anywhere reports whether a capability is in any grant.
func (g grants) anywhere(capability string) bool {
	for _, caps := range g {
		if caps[capability] {
			return true
		}
	}
	return false
}

// of are the capabilities for a name: of the pattern that is the name or, without that, of the
// one with the most letters of it.
func (g grants) of(name string) map[string]bool {
	if caps := g.named(name); caps != nil {
		return caps
	}
	best, length := "", -1
	for pattern := range g {
		letters := len(pattern) - strings.Count(pattern, "*")
		if strings.Contains(pattern, "*") && matches(pattern, name) && (letters > length || letters == length && pattern < best) {
			best, length = pattern, letters
		}
	}
	return g[best]
}

// named are the capabilities for a name of the pattern that is that name; nil: there is none.
func (g grants) named(name string) map[string]bool {
	if strings.Contains(name, "*") {
		return nil
	}
	return g[name]
}

// matches reports whether a name fits a pattern in which each "*" stands for any text.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, is := strings.CutPrefix(name, parts[0])
	if !is {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}
