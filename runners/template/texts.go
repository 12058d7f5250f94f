package template

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// text makes a function count whose result is about as long as its argument.
func (r *rendering) text(change func(string) string) func(string) (string, error) {
	return func(s string) (string, error) {
		out := change(s)
		return out, r.spend(len(out))
	}
}

// escaped is how much longer quoting and escaping make a byte at most.
const escaped = 6

// print makes a function that prints its arguments count beforehand.
func (r *rendering) print(printed func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		n, err := r.sizes(args)
		if err == nil {
			err = r.spend(escaped * n)
		}
		if err != nil {
			return "", err
		}
		return printed(args...), nil
	}
}

// sizes is how long values are when they are printed.
func (r *rendering) sizes(args []any) (n int, err error) {
	for _, arg := range args {
		s, is := arg.(string)
		if !is {
			s = fmt.Sprint(arg)
			if err := r.spend(len(s)); err != nil {
				return 0, err
			}
		}
		n += len(s) + 1
	}
	return n, nil
}

// wide finds widths and precisions in a format, and unboundedWidth those that are not a
// layout's.
var (
	wide           = regexp.MustCompile(`%[^a-zA-Z%]*[\d*]`)
	unboundedWidth = regexp.MustCompile(`%[^a-zA-Z%]*(\*|\d{4,})`)
)

// widest is what a width and a precision can add to a verb.
const widest = 2 * 999

func (r *rendering) printf(format string, args ...any) (string, error) {
	if unboundedWidth.MatchString(format) {
		return "", errors.New("widths have up to three digits")
	}
	n, err := r.sizes(args)
	if err != nil {
		return "", err
	}
	estimate := len(format) + widest*len(wide.FindAllStringIndex(format, -1))
	// An index names any argument any number of times.
	estimate += escaped * n * (1 + strings.Count(format, "["))
	if err := r.spend(estimate); err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

func title(s string) string {
	before := ' '
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(before) {
			before = c
			return unicode.ToTitle(c)
		}
		before = c
		return c
	}, s)
}

func (r *rendering) replaceAll(from, to, s string) (string, error) {
	if err := r.spend(len(s) + strings.Count(s, from)*len(to)); err != nil {
		return "", err
	}
	return strings.ReplaceAll(s, from, to), nil
}

// indent puts spaces before each line that is not empty.
func (r *rendering) indent(spaces int, s string) (string, error) {
	if spaces < 0 || spaces > 999 {
		return "", fmt.Errorf("%d spaces: it takes 0 to 999", spaces)
	}
	if err := r.spend(len(s) + spaces*(strings.Count(s, "\n")+1)); err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(s) {
		if strings.TrimRight(line, "\r\n") != "" {
			out.WriteString(strings.Repeat(" ", spaces))
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

// header is about what a text takes beside its bytes, in a list.
const header = 16

func (r *rendering) split(sep, s string) ([]string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	if err := r.spend(header * (strings.Count(s, sep) + 1)); err != nil {
		return nil, err
	}
	return strings.Split(s, sep), nil
}

func (r *rendering) join(sep string, list any) (string, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return "", fmt.Errorf("%T is not a list", list)
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = fmt.Sprint(v.Index(i).Interface())
		if err := r.spend(header + 2*len(parts[i]) + len(sep)); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, sep), nil
}

// maxSteps bounds what matching an expression takes, so that it ends within seconds:
// nothing can interrupt it.
const maxSteps = 1 << 30

// expression compiles one that is to be matched with a text, so often at worst.
func expression(text string, length, times int) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst)*(length+1) > maxSteps/(times+1) {
		return nil, fmt.Errorf("a text of %d bytes is too long for this expression", length)
	}
	return regexp.Compile(text)
}

func regexMatch(text, s string) (bool, error) {
	re, err := expression(text, len(s), 0)
	if err != nil {
		return false, err
	}
	return re.MatchString(s), nil
}

func (r *rendering) regexReplaceAll(text, to, s string) (string, error) {
	re, err := expression(text, len(s), len(s))
	if err != nil {
		return "", err
	}
	matches := len(re.FindAllStringIndex(s, -1))
	// A reference brings no more than its match, and all matches are no more than s.
	if err := r.spend(len(s)*(1+strings.Count(to, "$")) + matches*len(to)); err != nil {
		return "", err
	}
	return re.ReplaceAllString(s, to), nil
}

func (r *rendering) decode(encoding *base64.Encoding) func(string) (string, error) {
	return func(s string) (string, error) {
		out, err := encoding.DecodeString(s)
		if err != nil {
			return "", err
		}
		return string(out), r.spend(len(out))
	}
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (r *rendering) toJSON(v any) (string, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return string(out), r.spend(len(out))
}

const jsonIndent = "  "

// toJSONPretty counts beforehand: what is nested deep is indented far, each line of it.
func (r *rendering) toJSONPretty(v any) (string, error) {
	compact, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	depth, deepest, lines := 0, 0, 0
	for _, c := range compact { // those in texts count too: no harm
		switch c {
		case '[', '{':
			depth++
			lines++
		case ']', '}':
			depth--
			lines++
		case ',':
			lines++
		}
		deepest = max(deepest, depth)
	}
	if err := r.spend(len(compact) + lines*(2+deepest*len(jsonIndent))); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", jsonIndent); err != nil {
		return "", err
	}
	return out.String(), nil
}

// parseJSON spends what a list of small numbers takes, the costliest there is.
func (r *rendering) parseJSON(s string) (any, error) {
	if err := r.spend(header * len(s)); err != nil {
		return nil, err
	}
	if s == "" {
		return map[string]any{}, nil
	}
	var out any
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return nil, err
	}
	return out, nil
}
