package jobspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// expand lists a body's blocks, with those that `dynamic` makes in its place.
func (p *parser) expand(b *hclsyntax.Body, ctx *hcl.EvalContext) []expansion {
	var out []expansion
	for _, block := range b.Blocks {
		if block.Type == "dynamic" {
			out = append(out, p.dynamic(block, ctx)...)
			continue
		}
		out = append(out, expansion{block, block.Labels, ctx})
	}
	return out
}

// dynamic makes blocks, one for each element.
func (p *parser) dynamic(b *hclsyntax.Block, ctx *hcl.EvalContext) []expansion {
	content := p.dynamicContent(b)
	each := b.Body.Attributes["for_each"]
	if len(b.Labels) != 1 || content == nil || each == nil {
		p.errorf(b.TypeRange, "A dynamic block has the blocks' type as label, a for_each and a content block.")
		return nil
	}
	iterator := b.Labels[0]
	if a := b.Body.Attributes["iterator"]; a != nil {
		if iterator = hcl.ExprAsKeyword(a.Expr); iterator == "" {
			p.errorf(a.SrcRange, "An iterator is a plain name.")
			return nil
		}
	}
	over := p.eval(each.Expr, ctx)
	switch {
	case !over.IsKnown():
		return nil // reported where it went wrong
	case over.IsNull() || !over.CanIterateElements():
		p.errorf(each.SrcRange, "The for_each of a dynamic block has to be a list, a set or a map that is known when the file is read.")
		return nil
	}
	var out []expansion
	for it := over.ElementIterator(); it.Next(); {
		if p.expanded++; p.expanded > maxExpanded {
			p.errorf(each.SrcRange, "Dynamic blocks make more than %d blocks.", maxExpanded)
			return nil
		}
		key, value := it.Element()
		if over.Type().IsSetType() {
			key = value
		}
		inner := ctx.NewChild()
		inner.Variables = map[string]cty.Value{iterator: cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
		block := *content
		block.Type, block.TypeRange = b.Labels[0], b.TypeRange
		e := expansion{&block, nil, inner}
		if labels := b.Body.Attributes["labels"]; labels != nil {
			p.decode(labels.Expr, inner, &e.labels)
		}
		out = append(out, e)
	}
	return out
}

// dynamicContent finds the one content block, and refuses what a dynamic block does not
// have.
func (p *parser) dynamicContent(b *hclsyntax.Block) *hclsyntax.Block {
	known := []string{"for_each", "iterator", "labels", "content"}
	for _, a := range sorted(b.Body.Attributes) {
		switch a.Name {
		case "for_each", "iterator", "labels":
		default:
			p.errorf(a.NameRange, "Unsupported argument; a dynamic block has no %q%s", a.Name, suggest(a.Name, known))
		}
	}
	var content *hclsyntax.Block
	for _, c := range b.Body.Blocks {
		switch {
		case c.Type != "content":
			p.errorf(c.TypeRange, "Unsupported block type; a dynamic block has no %q%s", c.Type, suggest(c.Type, known))
		case content != nil:
			p.errorf(c.TypeRange, "Duplicate content block; a dynamic block has one, the first is at %s.", content.TypeRange)
		default:
			p.noLabels(c.Type, c.TypeRange, c.Labels)
			content = c
		}
	}
	return content
}
