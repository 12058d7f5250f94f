package config

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/wasmnode/wasmnode/abi"
)

// MaxDepth is how deep lists and objects may lie in each other.
const MaxDepth = 64

// SyntaxError is the error of [Parse]: where and what.
type SyntaxError struct {
	Offset  int // in bytes, of the first byte that does not fit
	Problem string
}

func (e *SyntaxError) Error() string {
	return "json: byte " + strconv.Itoa(e.Offset) + ": " + e.Problem
}

// Unwrap makes it INVALID_ARGUMENT to the node.
func (e *SyntaxError) Unwrap() error { return abi.NewError(abi.InvalidArgument, e.Error()) }

// Parse reads one JSON value (RFC 8259) with nothing but white space around it. No
// input at all is an empty object, because a plugin without a configuration gets
// none. Bytes that are not UTF-8 become U+FFFD, as in encoding/json.
func Parse(data []byte) (Value, error) {
	p := &parser{data: data}
	p.space()
	if p.at == len(data) {
		return Value{kind: Object}, nil
	}
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.at < len(data) {
		return Value{}, p.fail("more after the value")
	}
	return v, nil
}

type parser struct {
	data []byte
	at   int
}

func (p *parser) fail(problem string) error { return &SyntaxError{Offset: p.at, Problem: problem} }

// peek returns the next byte, 0 at the end: no JSON token begins with it.
func (p *parser) peek() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, p.fail("nested too deep")
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		s, err := p.string()
		return Value{kind: String, text: s}, err
	case c == '-' || isDigit(c):
		return p.number()
	case c == 't':
		return Value{kind: Bool, text: "true"}, p.word("true")
	case c == 'f':
		return Value{kind: Bool}, p.word("false")
	case c == 'n':
		return Value{kind: Null}, p.word("null")
	default:
		return Value{}, p.fail("want a value")
	}
}

func (p *parser) word(word string) error {
	if end := p.at + len(word); end <= len(p.data) && string(p.data[p.at:end]) == word {
		p.at = end
		return nil
	}
	return p.fail("want " + word)
}

func (p *parser) object(depth int) (Value, error) {
	v := Value{kind: Object}
	p.at++
	p.space()
	if p.peek() == '}' {
		p.at++
		return v, nil
	}
	for {
		if p.peek() != '"' {
			return v, p.fail("want a member's name")
		}
		name, err := p.string()
		if err != nil {
			return v, err
		}
		p.space()
		if p.peek() != ':' {
			return v, p.fail("want ':'")
		}
		p.at++
		p.space()
		member, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.fields = append(v.fields, Field{Name: name, Value: member})
		if done, err := p.next('}'); done || err != nil {
			return v, err
		}
	}
}

func (p *parser) list(depth int) (Value, error) {
	v := Value{kind: List}
	p.at++
	p.space()
	if p.peek() == ']' {
		p.at++
		return v, nil
	}
	for {
		item, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		if done, err := p.next(']'); done || err != nil {
			return v, err
		}
	}
}

// next reads what follows an element: a comma and the white space around it, or the
// closing byte.
func (p *parser) next(closing byte) (done bool, err error) {
	p.space()
	switch p.peek() {
	case closing:
		p.at++
		return true, nil
	case ',':
		p.at++
		p.space()
		return false, nil
	default:
		return false, p.fail("want ',' or '" + string(rune(closing)) + "'")
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (p *parser) digits() bool {
	start := p.at
	for isDigit(p.peek()) {
		p.at++
	}
	return p.at > start
}

func (p *parser) number() (Value, error) {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if !p.digits() {
		return Value{}, p.fail("want a digit")
	}
	if p.peek() == '.' {
		p.at++
		if !p.digits() {
			return Value{}, p.fail("want a digit after the point")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if !p.digits() {
			return Value{}, p.fail("want a digit in the exponent")
		}
	}
	return Value{kind: Number, text: string(p.data[start:p.at])}, nil
}

func (p *parser) string() (string, error) {
	p.at++
	var text []byte
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			return string(text), nil
		case c < ' ':
			return "", p.fail("control character in a string")
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			text = utf8.AppendRune(text, r)
		case c < utf8.RuneSelf:
			text = append(text, c)
			p.at++
		default:
			r, size := utf8.DecodeRune(p.data[p.at:])
			text = utf8.AppendRune(text, r)
			p.at += size
		}
	}
	return "", p.fail("string without an end")
}

func (p *parser) escape() (rune, error) {
	p.at++
	c := p.peek()
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return p.unicode()
	default:
		return 0, p.fail("no such escape in a string")
	}
	p.at++
	return rune(c), nil
}

// unicode reads \uXXXX, twice for a surrogate pair. A surrogate alone becomes
// U+FFFD.
func (p *parser) unicode() (rune, error) {
	first, err := p.hex4()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	if after := p.at; p.peek() == '\\' && after+1 < len(p.data) && p.data[after+1] == 'u' {
		p.at++
		second, err := p.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
			return pair, nil
		}
		p.at = after
	}
	return utf8.RuneError, nil
}

// hex4 reads the XXXX of \uXXXX, with the parser on the u.
func (p *parser) hex4() (rune, error) {
	p.at++
	if p.at+4 > len(p.data) {
		return 0, p.fail("want four hexadecimal digits")
	}
	n, err := strconv.ParseUint(string(p.data[p.at:p.at+4]), 16, 32)
	if err != nil {
		return 0, p.fail("want four hexadecimal digits")
	}
	p.at += 4
	return rune(n), nil
}
