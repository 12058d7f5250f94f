package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/template"
	"time"
	"unicode"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/ryanuber/columnize"
)

// shortID is how much of a UUID people see.
const shortID = 8

// meta is what commands share: how they talk to people and to the node.
type meta struct {
	ui ui
	// running is the command that runs; nil: none is known.
	running *running
}

// running is what is known of a command that runs.
type running struct {
	flags    *flag.FlagSet
	template string // what is for programs is printed with, of text/template; empty: JSON
}

// again is the command line, with another value of an option.
func (r *running) again(option, value string) string {
	line := "wasmnode " + r.flags.Name()
	r.flags.Visit(func(f *flag.Flag) {
		if f.Name != option && f.Name != "token" {
			line += fmt.Sprintf(" -%s=%s", f.Name, shellWord(f.Value.String()))
		}
	})
	line += " -" + option + "=" + shellWord(value)
	for _, arg := range r.flags.Args() {
		line += " " + shellWord(arg)
	}
	return line
}

// shellWord is a text as a shell takes it for one word.
func shellWord(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@=,+", r)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// flags are a command's flags, with those of every command that talks to a node.
type flags struct {
	*flag.FlagSet
	connection
	json    *bool // or another form for programs
	verbose *bool
}

// flags returns a flag set. Its errors are printed by [meta.parse].
func (m meta) flags(name string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	f.bind(f.FlagSet)
	f.json = f.Bool("json", false, "")
	f.Bool("no-color", false, "")    // newUI has read both
	f.Bool("force-color", false, "") // already
	f.verbose = f.Bool("verbose", false, "")
	return f
}

// parse reads arguments, of which at least min and at most max are not flags. It
// reports false after printing what is wrong.
func (m meta) parse(f *flags, args []string, least, most int, usage string) bool {
	template := ""
	if f.Lookup("t") == nil { // of a command whose -t is not another
		f.StringVar(&template, "t", "", "")
	}
	if m.running != nil {
		m.running.flags = f.FlagSet
	}
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		m.ui.Output(usage)
		return false
	case err != nil:
		m.misuse(usage, err.Error())
		return false
	case f.NArg() < least || f.NArg() > most:
		m.misuse(usage, fmt.Sprintf("%s takes %s, not %d", f.Name(), amount(least, most), f.NArg()))
		return false
	case *f.json && template != "":
		m.misuse(usage, "-json and -t are two forms: one of them")
		return false
	}
	if template != "" {
		*f.json, m.running.template = true, template
	}
	return true
}

// parseAlone reads the flags of a command that asks no node and takes nothing else. If it reports
// false, help or what is wrong is printed, and code is the exit code.
func (m meta) parseAlone(f *flag.FlagSet, args []string, usage string) (code int, ok bool) {
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		m.ui.Output(usage)
		return 0, false
	case err != nil:
		m.misuse(usage, err.Error())
		return 1, false
	case f.NArg() > 0:
		m.misuse(usage, fmt.Sprintf("%s takes no arguments, not %q", f.Name(), f.Arg(0)))
		return 1, false
	}
	return 0, true
}

// templated reports whether -t was given.
func (m meta) templated() bool { return m.running != nil && m.running.template != "" }

// misuse prints what is wrong with a command line, and how the command is used.
func (m meta) misuse(usage, wrong string) {
	m.ui.Error(fmt.Sprintf("Error: %s (usage: %s; see -h)", wrong, firstUsage(usage)))
}

func firstUsage(usage string) string {
	line, _, _ := strings.Cut(usage, "\n")
	return strings.TrimPrefix(line, "Usage: ")
}

func amount(least, most int) string {
	plural := func(n int) string {
		if n == 1 {
			return "1 argument"
		}
		return fmt.Sprintf("%d arguments", n)
	}
	switch {
	case least == most && most == 0:
		return "no arguments"
	case least == most:
		return plural(most)
	case least == 0:
		return "at most " + plural(most)
	}
	return fmt.Sprintf("%d to %s", least, plural(most))
}

// client returns a client of the node that the flags name.
func (m meta) client(f *flags) (*nomad.Client, error) { return f.open() }

// connect reads a command line as parse does, and returns a client of the node that it
// names. Without one it has printed why, and the exit code is 1.
func (m meta) connect(f *flags, args []string, least, most int, usage string) *nomad.Client {
	if !m.parse(f, args, least, most, usage) {
		return nil
	}
	client, err := m.client(f)
	if err != nil {
		m.fail(f, err)
		return nil
	}
	return client
}

// fail prints what went wrong, on one line where it can, and returns the exit code.
func (m meta) fail(f *flags, err error) int {
	text := err.Error()
	var netErr *url.Error
	var unexpected nomad.UnexpectedResponseError
	switch {
	case errors.As(err, &netErr) && !netErr.Timeout():
		text = fmt.Sprintf("cannot reach the node at %s: %v (%s)", f.address, netErr.Err, hint(f.address, packagedSocket, netErr.Err))
	case errors.As(err, &unexpected) && unexpected.HasBody():
		text = unexpected.Body()
		if unexpected.StatusCode() == http.StatusForbidden && f.token == "" && text == permissionDenied {
			text += ": show a token with -token or NOMAD_TOKEN"
		}
		if strings.HasPrefix(text, "Client sent an HTTP request to an HTTPS server") {
			text = fmt.Sprintf("cannot reach the node at %s: it has TLS: its address begins with https://", f.address)
		}
	}
	m.ui.Error("Error: " + strings.TrimSpace(text))
	return 1
}

// printJSON prints a value for programs: as JSON, or as -t has it.
func (m meta) printJSON(v any) int {
	text, err := m.render(v)
	if err != nil {
		m.ui.Error("Error: " + err.Error())
		return 1
	}
	m.ui.Output(text)
	return 0
}

func (m meta) render(v any) (string, error) {
	if m.running == nil || m.running.template == "" {
		b, err := json.MarshalIndent(v, "", "    ")
		return string(b), err
	}
	t, err := template.New("-t").Parse(m.running.template)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, v)
	return b.String(), err
}

// table prints rows of cells under a header; empty cells show as "<none>".
func (m meta) table(rows [][]string) {
	lines := make([]string, len(rows))
	for i, r := range rows {
		cells := make([]string, len(r))
		for j, text := range r {
			cells[j] = cell(text)
		}
		lines[i] = strings.Join(cells, "\x1f")
	}
	m.ui.Output(columnize.Format(lines, &columnize.Config{Delim: "\x1f", Glue: "  ", Empty: "<none>"}))
}

// pairs prints names and values.
func (m meta) pairs(pairs [][2]string) {
	rows := make([]string, len(pairs))
	for i, p := range pairs {
		rows[i] = p[0] + "\x1f" + cell(p[1])
	}
	m.ui.Output(columnize.Format(rows, &columnize.Config{Delim: "\x1f", Glue: " = ", Empty: "<none>"}))
}

// cell is a text that stays in its row and column.
func cell(text string) string {
	return harmless(strings.NewReplacer("\n", "; ", "\x1f", " ").Replace(text))
}

// short cuts an ID for people, unless they want to see it all.
func (f *flags) short(id string) string {
	if *f.verbose || len(id) <= shortID {
		return id
	}
	return id[:shortID]
}

// stamp renders a time since the Unix epoch in nanoseconds.
func stamp(ns int64) string {
	if ns <= 0 {
		return "N/A"
	}
	return time.Unix(0, ns).Format(time.RFC3339)
}

// ago renders how long ago a time since the Unix epoch in nanoseconds was.
// when is how long ago a time was, or the time itself for who wants all.
func (f *flags) when(ns int64) string {
	if *f.verbose {
		return stamp(ns)
	}
	return ago(ns)
}

func ago(ns int64) string {
	if ns <= 0 {
		return "N/A"
	}
	d := time.Since(time.Unix(0, ns))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds ago", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm ago", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh ago", int(d.Hours())/24, int(d.Hours())%24)
}

// commonOptions are the options of every command that talks to a node.
const commonOptions = `
  -json           Print JSON.
  -t=TEMPLATE     Print with a template of Go's text/template.
  -verbose        Print IDs in full.
  -no-color       Do not colour; NO_COLOR.
  -force-color    Colour also what is no terminal.
` + connectionOptions
