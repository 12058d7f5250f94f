package host

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// HelperGrant is a program that a plugin may run to its end, in any operation.
type HelperGrant struct {
	// Command is the program's absolute path.
	Command string
	// Args are its arguments, one by one; none: it is run without any.
	//
	// "*" alone is any one argument that is neither empty nor begins with '-'. Within an
	// element, '*' is any text without '/', ',', '=' and ':'; what such an element stands for
	// has no "." or ".." between those and no "//", and begins with '-' only if the element does. "..." at
	// the end is any number of arguments, none of which begins with '-'.
	Args []string
	// User is whom it runs as, "nobody" or "web:www"; empty: the node's own user.
	User string
	// Env is its environment, but for a PATH and who its user is, where that does not tell.
	Env map[string]string
}

// clone copies a grant, which its giver may change.
func (g HelperGrant) clone() HelperGrant {
	g.Args, g.Env = slices.Clone(g.Args), maps.Clone(g.Env)
	return g
}

// text is the grant for people. What is in an environment may be a secret.
func (g HelperGrant) text() string {
	text := strings.Join(append([]string{g.Command}, g.Args...), " ")
	if g.User != "" {
		text += " as " + g.User
	}
	return fmt.Sprintf("%q", text)
}

// helper returns the grant of a helper with those arguments; nil: there is none.
func (g ProcessGrant) helper(command string, args []string) *HelperGrant {
	for i := range g.Helpers {
		if h := &g.Helpers[i]; h.Command == command && h.arguments(args) {
			return h
		}
	}
	return nil
}

// arguments reports whether those may be used.
func (g *HelperGrant) arguments(args []string) bool {
	want := g.Args
	if last := len(want) - 1; last >= 0 && want[last] == grantsyntax.Further {
		want = want[:last]
		if len(args) < last || slices.ContainsFunc(args[last:], isOption) {
			return false
		}
		args = args[:last]
	}
	return slices.EqualFunc(want, args, argument)
}

// isOption reports whether a program may take an argument for an option.
func isOption(arg string) bool { return strings.HasPrefix(arg, "-") }

// argument reports whether an element of a grant stands for an argument.
func argument(element, arg string) bool {
	switch {
	case !strings.Contains(element, grantsyntax.Any):
		return element == arg
	case isOption(arg) && !isOption(element):
		return false
	case element == grantsyntax.Any:
		return arg != ""
	case slices.ContainsFunc(strings.FieldsFunc(arg, delimits), isDots):
		return false
	case strings.Contains(arg, "//") && !strings.Contains(element, "//"):
		return false // what would be between is left out, and the file is one further up
	}
	parts := strings.Split(element, grantsyntax.Any)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`^(?s)` + strings.Join(parts, `[^/,=:]*`) + `$`).MatchString(arg)
}

// delimits reports whether a character parts a path or an option's value from others.
func delimits(r rune) bool { return strings.ContainsRune("/,=:", r) }

func isDots(s string) bool { return s == "." || s == ".." }

// noHelpers refuses all helpers. Which ones the plugin will run is not known here, so that the
// fix is one to complete.
func noHelpers(plugin string) *MissingGrantError {
	fix := processFix(plugin, `helper "/path/to/program" { args = ["ARGUMENT"] }`) + ", naming the programs that it runs"
	return &MissingGrantError{plugin, abi.ModuleProcess, fix}
}

// Of the arguments of a helper that is refused, that many are shown, of that many bytes each.
const (
	shownArguments     = 32
	shownArgumentBytes = 128
)

// deniedHelper refuses a helper and names the missing grant.
func deniedHelper(plugin, command string, args []string) error {
	quoted := make([]string, 0, shownArguments+1)
	for _, arg := range args[:min(len(args), shownArguments)] {
		quoted = append(quoted, quoteHCL(plainArgument(arg)))
	}
	if len(args) > shownArguments {
		quoted = append(quoted, `"…"`)
	}
	command = plaintext.Line(command, 256)
	setting := fmt.Sprintf(`helper %s { }`, quoteHCL(command))
	if len(quoted) > 0 {
		setting = fmt.Sprintf(`helper %s { args = [%s] }`, quoteHCL(command), strings.Join(quoted, ", "))
	}
	return notGranted("running "+command+" with these arguments", processFix(plugin, setting))
}

// plainArgument is an argument that can be shown: the plugin is not to write patterns into what
// the operator copies.
func plainArgument(arg string) string {
	if strings.Contains(arg, grantsyntax.Any) || arg == grantsyntax.Further {
		return "…"
	}
	return plaintext.Line(arg, shownArgumentBytes)
}

// quoteHCL writes a text as HCL reads it, which has no templates then.
func quoteHCL(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(fmt.Sprintf("%q", text))
}
