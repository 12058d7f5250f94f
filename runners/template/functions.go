package template

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"

	"dario.cat/mergo"
)

// Why functions of consul-template's that people may look for are refused.
const (
	needsConsul = "it reads from Consul, which there is none of here"
	needsVault  = "it reads from Vault, which there is none of here"
	debugs      = "it shows consul-template's own data: printf \"%#v\" shows what a value is"
	disabled    = "function is disabled"
)

var refused = func() map[string]string {
	out := map[string]string{}
	for why, names := range map[string]string{
		needsConsul: "key keyExists keyExistsGet keyOrDefault ls safeLs tree safeTree explode service services " +
			"connect caRoots caLeaf node nodes datacenters partitions peerings exportedServices importedServices samenessGroup samenessGroups " +
			"byKey byMeta",
		needsVault: "secret secrets pkiCert",
		debugs:     "spew_dump spew_printf spew_sdump spew_sprintf",
		disabled:   "executeTemplate plugin writeToFile",
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = why
		}
	}
	return out
}()

// functions are those that a template may call, with consul-template's names and order of
// arguments. They are bound to one rendering, which what they make is counted to. Sprig's are there
// if the template names any: they are many.
func (r *rendering) functions(text string) template.FuncMap {
	f := template.FuncMap{
		tick:           r.tick,
		"env":          r.env,
		"envOrDefault": r.envOrDefault,
		"mustEnv":      r.mustEnv,
		"file":         r.file,
		"scratch":      func() *Scratch { return &Scratch{r} },
		"timestamp":    timestamp,
		"sockaddr":     r.sockaddr,

		"nomadService":  r.nomadService,
		"nomadServices": r.nomadServices,

		"nomadVar":         r.nomadVar,
		"nomadVarExists":   r.nomadVarExists,
		"nomadVarList":     r.nomadVarList,
		"nomadVarListSafe": r.nomadVarListSafe,

		"eq": r.equal,
		"ne": r.notEqual,

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
		"trim":            trim,
		"trimPrefix":      func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
		"trimSuffix":      func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"replaceAll":      r.replaceAll,
		"indent":          r.indent,
		"split":           r.split,
		"join":            r.join,
		"regexMatch":      r.regexMatch,
		"regexReplaceAll": r.regexReplaceAll,
		"splitToMap":      r.splitToMap,

		"base64Encode":    r.text(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
		"base64Decode":    r.decode(base64.StdEncoding),
		"base64URLEncode": r.text(func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }),
		"base64URLDecode": r.decode(base64.URLEncoding),
		"sha256Hex":       r.text(sha256Hex),
		"md5sum":          r.text(md5Hex),
		"hmacSHA256Hex": func(message, key string) (string, error) {
			return r.text(func(s string) string { return hmacSHA256Hex(s, key) })(message)
		},

		"toJSON":                r.writing(compactSize, asJSON("", true)),
		"toJSONPretty":          r.writing(prettySize, asJSON(jsonIndent, true)),
		"toUnescapedJSON":       r.writing(compactSize, asJSON("", false)),
		"toUnescapedJSONPretty": r.writing(prettySize, asJSON(jsonIndent, false)),
		"toYAML":                r.writing(prettySize, asYAML),
		"toTOML":                r.writing(tomlSize, asTOML),
		"parseJSON":             r.parseJSON,
		"parseYAML":             r.parseYAML,
		"parseBool":             orZero(strconv.ParseBool),
		"parseFloat":            orZero(func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }),
		"parseInt":              orZero(func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }),
		"parseUint":             orZero(func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }),

		"contains":       func(item, list any) (bool, error) { return r.has(list, item) },
		"containsAll":    r.someIn(true, true),
		"containsAny":    r.someIn(false, false),
		"containsNone":   r.someIn(true, false),
		"containsNotAll": r.someIn(false, true),
		"in":             r.has,
		"loop":           r.loop,

		"mergeMap":             r.mergeMap(),
		"mergeMapWithOverride": r.mergeMap(mergo.WithOverride),
		"explodeMap":           r.explodeMap,
		"byTag":                r.byTag,
		"byPort":               r.byPort,

		"add":      arithmetic(sum[int64], sum[uint64], sum[float64]),
		"subtract": arithmetic(difference[int64], difference[uint64], difference[float64]),
		"multiply": arithmetic(product[int64], product[uint64], product[float64]),
		"divide":   arithmetic(quotient[int64], quotient[uint64], ratio),
		"modulo":   arithmetic(remainder[int64], remainder[uint64], nil),
		"minimum":  extreme(func(a, b float64) bool { return a < b }),
		"maximum":  extreme(func(a, b float64) bool { return a > b }),

		printed: r.printable,
	}
	if strings.Contains(text, sprigPrefix) {
		r.sprigFunctions(f)
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
	if !set || v == "" {
		return "", fmt.Errorf("the task has no variable %.80q", name)
	}
	return v, nil
}

// orZero makes a function that parses texts take an empty one for nothing.
func orZero[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (v T, err error) {
		if s == "" {
			return v, nil
		}
		return parse(s)
	}
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
