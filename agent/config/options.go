package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// options does what Nomad's client.options say of which drivers there are and what tasks see of
// the agent's environment. Whom tasks may run as is refused: here that is a grant.
func (l *loader) options(a *hcl.Attribute) {
	if a == nil {
		return
	}
	v, diags := a.Expr.Value(nil)
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() || v.IsNull() {
		return
	}
	options, err := convert.Convert(v, cty.Map(cty.String))
	if err != nil || !options.IsWhollyKnown() {
		l.diags = append(l.diags, hclvalue.Errorf(a.Expr.Range(), "Unsuitable value; client.options is a map of strings.")...)
		return
	}
	values := options.AsValueMap()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if value := values[name]; !value.IsNull() {
			l.option(name, value.AsString(), a.Range)
		}
	}
}

func (l *loader) option(name, value string, at hcl.Range) {
	list := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	c := &l.config.Client
	switch name {
	case "driver.allowlist", "driver.whitelist":
		c.AllowedDrivers = list
	case "driver.denylist", "driver.blacklist":
		c.BlockedDrivers = list
	case "env.denylist", "env.blacklist":
		c.EnvDenylist = list
	default:
		k := NomadKey{Refused: strings.HasPrefix(name, "user."), Why: "no part of the agent has such an option"}
		switch of, _, _ := strings.Cut(name, "."); of {
		case "user", "driver", "docker":
			k.Why = "whom tasks may run as, and what a driver may do, is in the grants of its plugin"
		case "fingerprint":
			k.Why = onlyMachine
		}
		l.tell(&k, "client.options "+name, at, value)
	}
}
