package template

import (
	"cmp"
	"fmt"
	"text/template"
	"text/template/parse"
)

// tick is the name of the function that is called where a template may go round: it
// ends a rendering that is out of time.
const tick = "_tick"

// printed is the name of the function that what is printed goes through.
const printed = "_printed"

// restrict checks the trees of a parsed template and makes rendering it endable: each body of
// a loop begins with a call of tick, as each action does, what an action prints is looked at,
// templates do not call themselves, and no function is called that needs a service.
func restrict(t *template.Template, denied []string) error {
	ticking := template.Must(template.New("").Funcs(template.FuncMap{tick: func() string { return "" }}).Parse("{{" + tick + "}}")).Root.Nodes[0]
	calls := map[string][]string{}
	var lists []*parse.ListNode
	for _, part := range t.Templates() {
		if part.Tree == nil || part.Root == nil {
			continue
		}
		var err error
		walk(part.Root, func(n parse.Node) {
			switch n := n.(type) {
			case *parse.ListNode:
				lists = append(lists, n)
			case *parse.TemplateNode:
				calls[part.Name()] = append(calls[part.Name()], n.Name)
			case *parse.ActionNode:
				if len(n.Pipe.Decl) == 0 {
					n.Pipe.Cmds = append(n.Pipe.Cmds, printing(n, part.Tree))
				}
			case *parse.IdentifierNode:
				if err == nil {
					err = cmp.Or(refusal(n.Ident), denial(n.Ident, denied))
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for _, list := range lists { // not before: what ticks is printed as it is
		list.Nodes = ticked(list.Nodes, ticking)
	}
	return acyclic(calls)
}

// ticked are nodes with a call of tick at the beginning and before each that may take long.
func ticked(nodes []parse.Node, ticking parse.Node) []parse.Node {
	out := []parse.Node{ticking}
	for i, n := range nodes {
		if _, isText := n.(*parse.TextNode); !isText && i > 0 {
			out = append(out, ticking)
		}
		out = append(out, n)
	}
	return out
}

// printing is the last command of an action that prints.
func printing(n *parse.ActionNode, of *parse.Tree) *parse.CommandNode {
	call := parse.NewIdentifier(printed).SetPos(n.Pos).SetTree(of)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{call}}
}

// refusal is why a function cannot be called; nil: it can.
func refusal(function string) error {
	switch why := refused[function]; why {
	case "":
		return nil
	case disabled:
		return fmt.Errorf("error calling %s: %s", function, disabled)
	default:
		return fmt.Errorf("function %q is not supported: %s", function, why)
	}
}

// acyclic refuses templates that call themselves: nothing bounds the stack they take.
func acyclic(calls map[string][]string) error {
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case open:
			return fmt.Errorf("template %q calls itself, which is not supported", name)
		case done:
			return nil
		}
		state[name] = open
		for _, callee := range calls[name] {
			if err := visit(callee); err != nil {
				return err
			}
		}
		state[name] = done
		return nil
	}
	for name := range calls {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// walk visits a node and all below it.
func walk(n parse.Node, visit func(parse.Node)) {
	visit(n)
	branch := func(b *parse.BranchNode) {
		walk(b.Pipe, visit)
		walk(b.List, visit)
		if b.ElseList != nil {
			walk(b.ElseList, visit)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			walk(child, visit)
		}
	case *parse.ActionNode:
		walk(n.Pipe, visit)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				walk(arg, visit)
			}
		}
	case *parse.ChainNode:
		walk(n.Node, visit)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			walk(n.Pipe, visit)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	}
}
