package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"regexp"
	"strings"
)

// command is one of the binary's, with the text that -h prints.
type command struct {
	words    []string // none: the binary itself
	synopsis string
	help     string
}

// name is the command's page in the manual.
func (c command) name() string { return strings.Join(append([]string{"wasmnode"}, c.words...), "-") }

// listed is a line of a list of commands in a help text: the last word and what it does.
var listed = regexp.MustCompile(`^    ([a-z][a-z-]*) {2,}(.+)$`)

// list asks the binary for all of its commands.
func (b *builder) list(ctx context.Context) ([]command, error) {
	if b.commands != nil {
		return b.commands, nil
	}
	binary, err := b.native(ctx)
	if err != nil {
		return nil, err
	}
	help := func(words []string) (string, error) {
		out, err := b.run(ctx, nil, binary, append(words[:len(words):len(words)], "-h")...)
		return string(out), err
	}
	b.commands, err = commandsOf(help, nil, "a node agent whose drivers are sandboxed")
	return b.commands, err
}

// commandsOf returns a command and those below it, in the order of their lists.
func commandsOf(help func(words []string) (string, error), words []string, synopsis string) ([]command, error) {
	text, err := help(words)
	if err != nil {
		return nil, err
	}
	all := []command{{words, synopsis, strings.TrimRight(text, "\n")}}
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch m := listed.FindStringSubmatch(line); {
		case line == "Available commands are:" || line == "Subcommands:":
			in = true
		case !in:
		case m == nil:
			in = false
		default:
			below, err := commandsOf(help, append(words[:len(words):len(words)], m[1]), m[2])
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
	}
	return all, nil
}

// addManual adds a page for each command.
func (b *builder) addManual(ctx context.Context, t *tree, _ string) error {
	commands, err := b.list(ctx)
	if err != nil {
		return err
	}
	for _, c := range commands {
		page, err := compressed([]byte(manual(c, b.release)))
		if err != nil {
			return err
		}
		t.add("/usr/share/man/man1/"+c.name()+".1.gz", 0o644, page)
	}
	return nil
}

// manual is a command's page, in the macros man(7). What people read is the help text as it is:
// its columns are set by hand.
func manual(c command, r release) string {
	var p strings.Builder
	title := strings.ReplaceAll(c.name(), "-", `\-`)
	fmt.Fprintf(&p, ".TH %s 1 %s \"wasmnode %s\" \"wasmnode\"\n", strings.ToUpper(c.name()), r.Time.Format("2006-01-02"), r.Version)
	fmt.Fprintf(&p, ".SH NAME\n%s \\- %s\n", title, roff(lower(c.synopsis)))
	usage, rest, _ := strings.Cut(c.help, "\n\n")
	fmt.Fprintf(&p, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(strings.TrimPrefix(usage, "Usage: ")))
	if rest != "" {
		fmt.Fprintf(&p, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(rest))
	}
	if len(c.words) == 0 {
		p.WriteString(".SH FILES\n.nf\n" + roff(places) + "\n.fi\n.SH SEE ALSO\n.BR wasmnode\\-agent (1),\nand a page for each command: wasmnode\\-job\\-run(1) is of \"wasmnode job run\".\n")
	} else {
		p.WriteString(".SH SEE ALSO\n.BR wasmnode (1)\n")
	}
	return p.String()
}

const places = `/etc/wasmnode                  the configuration: each .hcl file in it
/etc/wasmnode/environment      variables of the agent's unit
/var/lib/wasmnode              all that has to survive
/var/lib/wasmnode/plugins      where plugins are dropped
/usr/share/wasmnode/plugins    plugins that came with the package`

// lower has a sentence begin with a small letter, unless its first word is all capitals.
func lower(text string) string {
	if len(text) > 1 && text[1] >= 'A' && text[1] <= 'Z' {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// roff is a text as roff shows it unchanged.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// compressed is the same for the same content.
func compressed(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(content); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}
