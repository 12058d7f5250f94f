package main

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// freeBlock is a block whose names are free, and whose values are texts.
type freeBlock struct {
	Body hcl.Body `hcl:",remain"`
}

// texts are what a block has; nil: there is no block.
func (b *freeBlock) texts() (all map[string]string, diags hcl.Diagnostics) {
	if b != nil {
		diags = gohcl.DecodeBody(b.Body, nil, &all)
	}
	return all, diags
}

// textsOf are those of a name that a body has as an attribute or, with isBlock, as a block. It may
// have nothing else.
func textsOf(body hcl.Body, name string, isBlock bool) (all map[string]string, diags hcl.Diagnostics) {
	schema := &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}}
	if isBlock {
		schema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: name}}}
	}
	content, diags := body.Content(schema)
	if diags.HasErrors() {
		return nil, diags
	}
	if a := content.Attributes[name]; a != nil {
		diags = gohcl.DecodeExpression(a.Expr, nil, &all)
	}
	for i, b := range content.Blocks {
		if i > 0 {
			return nil, hclvalue.Errorf(b.DefRange, "Duplicate %s block; only one %s block is allowed.", name, name)
		}
		all, diags = (&freeBlock{b.Body}).texts()
	}
	return all, diags
}

// hasBlock reports whether a body that is HCL has a block of a name. In JSON, it is an attribute.
func hasBlock(body hcl.Body, name string) bool {
	native, is := body.(*hclsyntax.Body)
	return is && slices.ContainsFunc(native.Blocks, func(b *hclsyntax.Block) bool { return b.Type == name })
}
