package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/gohcl"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// Permit grants a plugin what a text says, written as what is inside of a grant block: what it
// sets replaces what was granted before, key by key. Where says where the text is from, for
// messages. The error lists every fault, a line each; then nothing has changed.
func (p *Plugin) Permit(where, text string) error {
	l := loader{}
	body, lines, diags := parse(where, []byte(text))
	l.diags = diags
	to := p.Grant
	if body != nil {
		var g grantBlock
		l.add(gohcl.DecodeBody(body, nil, &g))
		l.grant(&to, &g)
	}
	relocate(l.diags, where, lines)
	if l.diags.HasErrors() {
		return errors.New(strings.Join(hclvalue.Lines(l.diags), "\n"))
	}
	if err := to.Validate(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	p.Grant = to
	return nil
}
