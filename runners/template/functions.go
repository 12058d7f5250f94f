package template

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// Why functions of consul-template's that people may look for are refused.
const (
	needsConsul = "it reads from Consul, which there is none of here"
	needsVault  = "it reads from Vault, which there is none of here"
	needsMore   = "it writes files or runs programs"
)

var refused = func() map[string]string {
	out := map[string]string{}
	for why, names := range map[string]string{
		needsConsul: "key keyExists keyExistsGet keyOrDefault ls safeLs tree safeTree explode service services " +
			"connect caRoots caLeaf node nodes datacenters partitions peerings exportedServices samenessGroup samenessGroups " +
			"byKey byTag byMeta byPort",
		needsVault: "secret secrets pkiCert",
		needsMore:  "plugin writeToFile",
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = why
		}
	}
	return out
}()

// functions are those that a template may call, with consul-template's names and order of
// arguments. They are bound to one rendering, which what they make is counted to.
func (r *rendering) functions() template.FuncMap {
	f := template.FuncMap{
		tick:           r.tick,
		"env":          r.env,
		"envOrDefault": r.envOrDefault,
		"mustEnv":      r.mustEnv,
		"file":         r.read,
		"timestamp":    timestamp,

		"nomadService":  r.nomadService,
		"nomadServices": r.nomadServices,

		"nomadVar":         r.nomadVar,
		"nomadVarExists":   r.nomadVarExists,
		"nomadVarList":     r.nomadVarList,
		"nomadVarListSafe": r.nomadVarListSafe,

		"print":    r.print(fmt.Sprint),
		"println":  r.print(fmt.Sprintln),
		"html":     r.print(template.HTMLEscaper),
		"js":       r.print(template.JSEscaper),
		"urlquery": r.print(template.URLQueryEscaper),
		"printf":   r.printf,

		"toLower":         r.text(strings.ToLower),
		"toUpper":         r.text(strings.ToUpper),
		"toTitle":         r.text(title),
		"trimSpace":       r.text(strings.TrimSpace),
		"trim":            func(cutset, s string) string { return strings.Trim(s, cutset) },
		"trimPrefix":      func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
		"trimSuffix":      func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"replaceAll":      r.replaceAll,
		"indent":          r.indent,
		"split":           r.split,
		"join":            r.join,
		"regexMatch":      regexMatch,
		"regexReplaceAll": r.regexReplaceAll,

		"base64Encode":    r.text(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
		"base64Decode":    r.decode(base64.StdEncoding),
		"base64URLEncode": r.text(func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }),
		"base64URLDecode": r.decode(base64.URLEncoding),
		"sha256Hex":       sha256Hex,

		"toJSON":       r.toJSON,
		"toJSONPretty": r.toJSONPretty,
		"parseJSON":    r.parseJSON,
		"parseBool":    strconv.ParseBool,
		"parseFloat":   func(s string) (float64, error) { return strconv.ParseFloat(s, 64) },
		"parseInt":     func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) },
		"parseUint":    func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) },

		"contains": contains,
		"in":       func(list, item any) (bool, error) { return contains(item, list) },
		"loop":     r.loop,

		"add":      arithmetic(func(a, b int64) (int64, error) { return a + b, nil }, func(a, b float64) float64 { return a + b }),
		"subtract": arithmetic(func(a, b int64) (int64, error) { return a - b, nil }, func(a, b float64) float64 { return a - b }),
		"multiply": arithmetic(func(a, b int64) (int64, error) { return a * b, nil }, func(a, b float64) float64 { return a * b }),
		"divide":   arithmetic(divide, func(a, b float64) float64 { return a / b }),
		"modulo":   modulo,
	}
	for name := range refused {
		f[name] = func(...any) string { return "" } // known, so that restrict can explain the refusal
	}
	return f
}

// tick ends a rendering whose time is over.
func (r *rendering) tick() (string, error) { return "", r.ctx.Err() }

func (r *rendering) env(name string) string {
	v, _ := r.in.Env.Lookup(name)
	return v
}

func (r *rendering) envOrDefault(name, otherwise string) string {
	if v, set := r.in.Env.Lookup(name); set {
		return v
	}
	return otherwise
}

func (r *rendering) mustEnv(name string) (string, error) {
	v, set := r.in.Env.Lookup(name)
	if !set {
		return "", fmt.Errorf("the task has no variable %q", name)
	}
	return v, nil
}

// timestamp is the time now, in UTC: as RFC 3339, in a layout of Go's, or as "unix".
func timestamp(layout ...string) (string, error) {
	now := time.Now().UTC()
	switch {
	case len(layout) == 0:
		return now.Format(time.RFC3339), nil
	case len(layout) > 1:
		return "", errors.New("it takes one layout")
	case layout[0] == "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	}
	return now.Format(layout[0]), nil
}
