package template

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// sprigPrefix is what the names of sprig's functions begin with, as in consul-template, which has
// only those that depend on nothing but their arguments, chance and the time.
const sprigPrefix = "sprig_"

// The bounds of functions whose cost does not follow from how much they are given.
const (
	// maxCompared bounds how often parts of lists are compared, which nothing can interrupt.
	maxCompared = 1 << 24
	// maxComparedBytes bounds how many bytes these have at worst.
	maxComparedBytes = 1 << 30
	// maxKeys bounds the keys, certificates and passwords that one rendering makes: each takes up
	// to seconds.
	maxKeys = 16
	// maxKeyText bounds what is given to make one of, in bytes: long keys take longer than they are.
	maxKeyText = 16 << 10
	// maxVersion bounds versions and what they are compared with, in bytes.
	maxVersion = 4 << 10
	// maxNumber bounds the numbers of a sequence.
	maxNumber = 1 << 40
	// maxOperands bounds how many broken numbers are calculated with at once: each makes the
	// result longer.
	maxOperands = 100
)

// sprigCosts are of the functions that may make more than they are given, or take longer.
var sprigCosts = map[string]cost{
	"repeat":    func(_ *rendering, a []any, _ size) (int, error) { return times(a[0].(int), len(a[1].(string))), nil },
	"indent":    indented,
	"nindent":   indented,
	"replace":   func(_ *rendering, a []any, _ size) (int, error) { return replaced(a[0], a[1], a[2]), nil },
	"wrap":      func(_ *rendering, _ []any, s size) (int, error) { return escaped * s.bytes, nil },
	"wrapWith":  func(_ *rendering, a []any, s size) (int, error) { return times(len(a[1].(string))+1, s.bytes), nil },
	"join":      joinedBy,
	"until":     func(_ *rendering, a []any, _ size) (int, error) { return sequence(0, a[0].(int), 1) },
	"untilStep": func(_ *rendering, a []any, _ size) (int, error) { return sequence(a[0].(int), a[1].(int), a[2].(int)) },
	"seq":       seqCost,

	"split": func(_ *rendering, a []any, _ size) (int, error) { return splitCost(2*mapPart, a[0], a[1], -1), nil },
	"splitn": func(_ *rendering, a []any, _ size) (int, error) {
		return splitCost(2*mapPart, a[0], a[2], a[1].(int)), nil
	},
	"splitList": func(_ *rendering, a []any, _ size) (int, error) { return splitCost(listPart, a[0], a[1], -1), nil },

	"trimall": trimmed, "trimAll": trimmed,

	"semver": versioned, "semverCompare": versioned,

	"uniq": compared, "mustUniq": compared, "without": compared, "mustWithout": compared,

	"addf": calculated, "subf": calculated, "mulf": calculated, "divf": calculated,

	"toPrettyJson": pretty, "mustToPrettyJson": pretty,
	"fromJson": parsed, "mustFromJson": parsed,

	"bcrypt": keyMade, "htpasswd": keyMade, "derivePassword": keyMade, "genPrivateKey": keyMade,
	"buildCustomCert": keyMade, "genCA": keyMade, "genCAWithKey": keyMade, "genSelfSignedCert": keyMade,
	"genSelfSignedCertWithKey": keyMade, "genSignedCert": keyMade, "genSignedCertWithKey": keyMade,

	"regexMatch": matched(1), "mustRegexMatch": matched(1), "regexFind": matched(1), "mustRegexFind": matched(1),
	"regexFindAll": matchedOften, "mustRegexFindAll": matchedOften,
	"regexSplit": matchedOften, "mustRegexSplit": matchedOften,
	"regexReplaceAll": replacedOften, "mustRegexReplaceAll": replacedOften,
	"regexReplaceAllLiteral": replacedOften, "mustRegexReplaceAllLiteral": replacedOften,
}

// sprigFunctions adds sprig's functions, bound to the rendering.
func (r *rendering) sprigFunctions(f template.FuncMap) {
	for name, fn := range sprig.HermeticTxtFuncMap() {
		switch name {
		case "set":
			fn = r.set
		case "merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite":
			fn = r.merging(fn)
		}
		costs := sprigCosts[name]
		if costs == nil {
			costs = linear
		}
		f[sprigPrefix+name] = r.bounded(fn, costs)
	}
}

// set is sprig's, which would make a map that has itself in it.
func (r *rendering) set(m map[string]any, key string, value any) (map[string]any, error) {
	if err := r.put(m, key, value); err != nil {
		return nil, err
	}
	return m, nil
}

// put puts a value into a map.
func (r *rendering) put(m map[string]any, key string, value any) error {
	if m == nil {
		return errors.New("there is no map to put it into")
	}
	if err := withoutCycle(m, value); err != nil {
		return err
	}
	m[key] = value
	return r.spend(mapPart + len(key))
}

// merging makes a function that merges maps take copies of those that it merges into the first: it
// would put maps into themselves otherwise.
func (r *rendering) merging(fn any) any {
	copies := func(sources []map[string]any) ([]map[string]any, error) {
		out := make([]map[string]any, len(sources))
		for i, source := range sources {
			s, err := sizeOf(source)
			if err == nil {
				err = r.spend(mapPart * s.parts)
			}
			if err != nil {
				return nil, err
			}
			out[i] = copied(source).(map[string]any)
		}
		return out, nil
	}
	switch fn := fn.(type) {
	case func(map[string]any, ...map[string]any) (any, error):
		return func(to map[string]any, sources ...map[string]any) (any, error) {
			sources, err := copies(sources)
			if err != nil {
				return nil, err
			}
			return fn(to, sources...)
		}
	case func(map[string]any, ...map[string]any) any:
		return func(to map[string]any, sources ...map[string]any) (any, error) {
			sources, err := copies(sources)
			if err != nil {
				return nil, err
			}
			return fn(to, sources...), nil
		}
	}
	panic(fmt.Sprintf("%T merges no maps", fn))
}

// times is a product that is too much when it is no number any more; what is negative is refused
// by the function.
func times(a, b int) int {
	switch {
	case a <= 0 || b <= 0:
		return 0
	case a > maxMade || b > maxMade:
		return maxMade + 1
	}
	return a * b
}

func indented(_ *rendering, args []any, _ size) (int, error) {
	text := args[1].(string)
	return len(text) + times(args[0].(int), strings.Count(text, "\n")+1), nil
}

func replaced(from, to, text any) int {
	s := text.(string)
	return len(s) + times(strings.Count(s, from.(string)), len(to.(string)))
}

// splitCost is of a text that is split, each part of which takes so much; at most so many, negative: all.
func splitCost(each int, sep, text any, most int) int {
	parts := strings.Count(text.(string), sep.(string)) + 1
	if most >= 0 {
		parts = min(parts, most)
	}
	return times(each, parts)
}

func versioned(r *rendering, args []any, s size) (int, error) {
	if s.bytes > maxVersion {
		return 0, fmt.Errorf("it is given %d bytes, more than %d", s.bytes, maxVersion)
	}
	return linear(r, args, s)
}

func trimmed(r *rendering, args []any, s size) (int, error) {
	if err := trimmable(args[0].(string), args[1].(string)); err != nil {
		return 0, err
	}
	return linear(r, args, s)
}

func joinedBy(_ *rendering, args []any, s size) (int, error) {
	return s.printed() + times(len(args[0].(string)), s.parts), nil
}

// sequence is what the numbers from one up or down to another take, as a list or a text.
func sequence(from, to, step int) (int, error) {
	for _, n := range []int{from, to, step} {
		if n > maxNumber || n < -maxNumber {
			return 0, fmt.Errorf("a sequence is of numbers from %d to %d: %d is none", -maxNumber, maxNumber, n)
		}
	}
	if step == 0 {
		return 0, nil
	}
	return times(max(to-from, from-to)/max(step, -step)+2, mapPart), nil
}

func seqCost(_ *rendering, args []any, _ size) (int, error) {
	var n []int
	for _, a := range args {
		n = append(n, a.(int))
	}
	switch len(n) {
	case 1:
		return sequence(1, n[0], 1)
	case 2:
		return sequence(n[0], n[1], 1)
	case 3:
		return sequence(n[0], n[2], n[1])
	}
	return 0, nil
}

// compared is of functions that look for each part of a list in it, or in what else they are given.
func compared(r *rendering, args []any, s size) (int, error) {
	if s.parts > maxCompared/s.parts {
		return 0, fmt.Errorf("a list of %d parts is too long to compare them all", s.parts)
	}
	if s.parts > 0 && s.bytes > maxComparedBytes/s.parts {
		return 0, fmt.Errorf("a list of %d parts is too long to compare their %d bytes", s.parts, s.bytes)
	}
	return linear(r, args, s)
}

func calculated(r *rendering, args []any, s size) (int, error) {
	if len(args) > maxOperands {
		return 0, fmt.Errorf("it takes %d numbers at most, not %d", maxOperands, len(args))
	}
	return linear(r, args, s)
}

// pretty counts that what is nested deep is indented far.
func pretty(_ *rendering, args []any, _ size) (int, error) { return prettySize(args[0]) }

func parsed(_ *rendering, args []any, s size) (int, error) { return mapPart * s.bytes, nil }

func keyMade(r *rendering, args []any, s size) (int, error) {
	if r.keys++; r.keys > maxKeys {
		return 0, fmt.Errorf("it makes more than %d keys, certificates and passwords", maxKeys)
	}
	if s.bytes > maxKeyText {
		return 0, fmt.Errorf("it is given %d bytes, more than %d", s.bytes, maxKeyText)
	}
	if len(args) == 1 && args[0] == "dsa" {
		return 0, errors.New("no DSA keys are made: nothing bounds how long that takes")
	}
	return linear(r, args, s)
}

// matched is of functions that match an expression with a text, so often.
func matched(times int) cost {
	return func(r *rendering, args []any, s size) (int, error) {
		if _, err := bearable(args, times-1); err != nil {
			return 0, err
		}
		return linear(r, args, s)
	}
}

func matchedOften(_ *rendering, args []any, s size) (int, error) {
	n := len(args[1].(string))
	_, err := bearable(args, n)
	return times(listPart, n+1) + s.bytes, err
}

func replacedOften(r *rendering, args []any, s size) (int, error) {
	text, to := args[1].(string), args[2].(string)
	re, err := bearable(args, len(text))
	if re == nil {
		return s.bytes, err
	}
	return replacedSize(re, to, text), nil
}

// bearable is the expression that is the first argument, to be matched with the second so often;
// nil: it is none, of which the function tells.
func bearable(args []any, times int) (*regexp.Regexp, error) {
	re, err := expression(args[0].(string), len(args[1].(string)), times)
	if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
		return nil, nil
	}
	return re, err
}
