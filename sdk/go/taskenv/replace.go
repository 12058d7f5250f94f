package taskenv

import (
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Replace replaces each reference in a text by what it names: ${NAME}, ${env["NAME"]} and
// ${env.NAME} a variable of the task's; ${node.unique.id} and ${node.unique.name} the node. A reference
// to anything else stays as it is: also to ${attr.…}, ${meta.…} and the rest of ${node.…}, of which a
// driver is told nothing. In the config block of a task the node has replaced those, too.
func Replace(t *wasmnodev1.TaskConfig, text string) string {
	var out strings.Builder
	for {
		begin := strings.Index(text, "${")
		if begin < 0 {
			break
		}
		quoted, bare, length := reference(text[begin:])
		if length == 0 {
			out.WriteString(text[:begin+1])
			text = text[begin+1:]
			continue
		}
		value, known := lookup(t, quoted, bare)
		if !known {
			value = text[begin : begin+length]
		}
		out.WriteString(text[:begin])
		out.WriteString(value)
		text = text[begin+length:]
	}
	out.WriteString(text)
	return out.String()
}

// reference reads ${ env["quoted"] } or ${ bare } at the beginning of a text; length 0: it is none.
func reference(text string) (quoted, bare string, length int) {
	rest := space(text[len("${"):])
	if name, after, found := inBrackets(rest); found {
		quoted, rest = name, after
	} else {
		n := 0
		for n < len(rest) && isBare(rest[n]) {
			n++
		}
		if n == 0 {
			return "", "", 0
		}
		bare, rest = rest[:n], rest[n:]
	}
	rest, closed := strings.CutPrefix(space(rest), "}")
	if !closed {
		return "", "", 0
	}
	return quoted, bare, len(text) - len(rest)
}

// inBrackets reads env["name"].
func inBrackets(text string) (name, rest string, found bool) {
	if rest, found = strings.CutPrefix(text, "env["); !found {
		return "", "", false
	}
	if rest, found = strings.CutPrefix(space(rest), `"`); !found {
		return "", "", false
	}
	if name, rest, found = strings.Cut(rest, `"`); !found || name == "" {
		return "", "", false
	}
	rest, found = strings.CutPrefix(space(rest), "]")
	return name, rest, found
}

// space is a text without the white space before it.
func space(text string) string { return strings.TrimLeft(text, "\t\n\f\r ") }

func isBare(c byte) bool { return isWord(rune(c)) || c == '-' || c == '.' || c == '/' }

func isWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

func lookup(t *wasmnodev1.TaskConfig, quoted, bare string) (value string, known bool) {
	env := t.GetEnv()
	switch bare {
	case "":
		return variable(env, quoted)
	case "node.unique.id":
		return t.GetNodeId(), true
	case "node.unique.name":
		return t.GetNodeName(), true
	}
	if name, found := strings.CutPrefix(bare, "env."); found {
		return variable(env, name)
	}
	return variable(env, bare)
}

// variable finds a variable under its name, or under the one that it has in an environment.
func variable(env map[string]string, name string) (value string, set bool) {
	if value, set = env[name]; !set {
		value, set = env[clean(name)]
	}
	return value, set
}

// made are the prefixes of names that are made from a label or a key.
var made = []string{
	"NOMAD_ADDR_", "NOMAD_IP_", "NOMAD_PORT_", "NOMAD_HOST_PORT_", "NOMAD_META_", "NOMAD_HOST_IP_", "NOMAD_HOST_ADDR_", "NOMAD_ALLOC_PORT_",
	"NOMAD_ALLOC_IP_", "NOMAD_ALLOC_ADDR_", "NOMAD_ALLOC_INTERFACE_", "NOMAD_IPv4_", "NOMAD_IPv6_",
}

// clean replaces what cannot be in the name of a variable by '_', in names that are made.
func clean(name string) string {
	for _, prefix := range made {
		if strings.HasPrefix(name, prefix) {
			return strings.Map(func(r rune) rune {
				if isWord(r) {
					return r
				}
				return '_'
			}, name)
		}
	}
	return name
}
