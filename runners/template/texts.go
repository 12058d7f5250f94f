package template

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
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
		n, err := sizes(args)
		if err == nil {
			err = r.spend(escaped * n.printed())
		}
		if err != nil {
			return "", err
		}
		return printed(args...), nil
	}
}

// sizes is how long values are when they are printed.
func sizes(args []any) (n size, err error) {
	n, err = sizeOf(args...)
	n.parts += len(args)
	return n, err
}

// wide finds widths and precisions in a format, and unboundedWidth those that are not a
// layout's.
var (
	wide           = regexp.MustCompile(`%[^a-zA-Z%]*[\d*]`)
	unboundedWidth = regexp.MustCompile(`%[^a-zA-Z%]*(\*|\d{4,})`)
)

// widest is what a width and a precision can add to what a verb prints: to each part of it.
const widest = 2 * 999

// named is what a part takes more where its type or its fields are printed with it.
const named = 256

// detailed finds the verbs that do so.
var detailed = regexp.MustCompile(`%[^a-zA-Z%]*[#+]|%[^a-zA-Z%]*T`)

func (r *rendering) printf(format string, args ...any) (string, error) {
	if unboundedWidth.MatchString(format) {
		return "", errors.New("widths have up to three digits")
	}
	n, err := sizes(args)
	if err != nil {
		return "", err
	}
	each := escaped * n.printed()
	if detailed.MatchString(format) {
		each += times(named, n.parts)
	}
	// An index names any argument any number of times.
	estimate := times(each, 1+strings.Count(format, "["))
	estimate += times(widest*n.parts, len(wide.FindAllStringIndex(format, -1)))
	if err := r.spend(len(format) + estimate); err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

// title has each word begin with a capital letter.
func title(s string) string { return cases.Title(language.Und, cases.NoLower).String(s) }

// trim removes the characters of a set from both ends.
func trim(cutset, s string) (string, error) {
	if err := trimmable(cutset, s); err != nil {
		return "", err
	}
	return strings.Trim(s, cutset), nil
}

// trimmable refuses a set that would take long to look for each character in.
func trimmable(cutset, s string) error {
	if len(cutset) > maxSteps/(len(s)+1) {
		return fmt.Errorf("a text of %d bytes is too long to trim %d bytes of characters", len(s), len(cutset))
	}
	return nil
}

func (r *rendering) replaceAll(from, to, s string) (string, error) {
	if err := r.spend(replaced(from, to, s)); err != nil {
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
		if line != "\n" {
			out.WriteString(strings.Repeat(" ", spaces))
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

func (r *rendering) split(sep, s string) ([]string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return []string{}, nil
	}
	if err := r.spend(listPart * (strings.Count(s, sep) + 1)); err != nil {
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
		part := v.Index(i).Interface()
		n, err := sizeOf(part)
		if err != nil {
			return "", err
		}
		if n.printed() > r.left {
			return "", errMade
		}
		parts[i] = fmt.Sprint(part)
		if err := r.spend(listPart + 2*len(parts[i]) + len(sep)); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, sep), nil
}

// maxSteps bounds what matching an expression takes, so that it ends within seconds:
// nothing can interrupt it.
const maxSteps = 1 << 30

// maxMatchSteps bounds one match likewise: each of its steps may take 50 ns, and it has to end within
// the time of a rendering.
const maxMatchSteps = 1 << 27

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
	if steps := len(program.Inst) * (length + 1); steps > maxMatchSteps || steps > maxSteps/(times+1) {
		return nil, fmt.Errorf("a text of %d bytes is too long for this expression", length)
	}
	return regexp.Compile(text)
}

func (r *rendering) regexMatch(text, s string) (bool, error) {
	if err := r.ctx.Err(); err != nil {
		return false, err
	}
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
	if err := r.spend(replacedSize(re, to, s)); err != nil {
		return "", err
	}
	return re.ReplaceAllString(s, to), nil
}

// replacedSize is how long a text is at most whose matches are replaced: a reference brings no more
// than its match, and all matches are no more than the text.
func replacedSize(re *regexp.Regexp, to, s string) int {
	matches := len(re.FindAllStringIndex(s, -1))
	return times(len(s)+1, 1+strings.Count(to, "$")) + times(matches, len(to))
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

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // the template says what it is for
	return hex.EncodeToString(sum[:])
}

func hmacSHA256Hex(message, key string) string {
	sum := hmac.New(sha256.New, []byte(key))
	_, _ = sum.Write([]byte(message)) // it never fails
	return hex.EncodeToString(sum.Sum(nil))
}
