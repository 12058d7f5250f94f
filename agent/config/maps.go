package config

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// mapKeys have any keys in them, quoted or not.
var mapKeys = []string{"client.meta", "client.chroot_env", "client.options", "http_api_response_headers"}

// assignMaps makes arguments of the maps that are written as blocks, as Nomad takes them:
//
//	meta {
//	  "rack" = "r1"
//	}
//
// HCL's native syntax has no block with keys in quotes. Nothing moves but on a line without a
// space before the brace.
func assignMaps(path string, src []byte) []byte {
	tokens, diags := hclsyntax.LexConfig(src, path, hcl.InitialPos)
	if diags.HasErrors() {
		return src
	}
	var out bytes.Buffer
	var blocks []string
	at := 0
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			name := nameBefore(tokens[:i])
			if !slices.Contains(mapKeys, strings.Join(append(slices.Clone(blocks), name), ".")) {
				blocks = append(blocks, name)
				continue
			}
			blocks = append(blocks, "") // of what is in a map, nothing is a block
			out.Write(src[at:tokens[i-1].Range.End.Byte])
			out.WriteByte('=')
			if at = tokens[i-1].Range.End.Byte; at < t.Range.Start.Byte {
				at++
			}
		case hclsyntax.TokenCBrace:
			blocks = blocks[:max(0, len(blocks)-1)]
		}
	}
	out.Write(src[at:])
	return out.Bytes()
}

// nameBefore is the name of the block that begins after these tokens; empty: none does.
func nameBefore(tokens hclsyntax.Tokens) string {
	n := len(tokens)
	if n == 0 || tokens[n-1].Type != hclsyntax.TokenIdent {
		return ""
	}
	return string(tokens[n-1].Bytes)
}
