package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// grantLook is how often it is looked whether the plugin was refused something.
const grantLook = 500 * time.Millisecond

// grantAsker asks whether a plugin is granted what it was refused, each thing once.
type grantAsker struct {
	out     *lines
	file    string        // where grants are added; empty: nowhere
	answers <-chan string // of who is in front of the terminal; nil: nobody is
	always  bool          // the answer was always
	settled map[string]bool
}

// newGrantAsker returns one for the configuration of a folder's own node.
func (d *dev) newGrantAsker() *grantAsker {
	a := &grantAsker{out: d.out, settled: map[string]bool{}}
	if file := filepath.Join(d.dir, "agent.hcl"); d.pluginDir == "" && exists(file) {
		a.file = file
	}
	if a.file != "" && isTerminal(os.Stdin) && d.terminal {
		a.answers = answers(os.Stdin)
	}
	return a
}

// answers are the lines that a person enters, until there are no more. Reading from a terminal
// cannot be given up, so that it goes on for as long as the process.
func answers(in io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			out <- scanner.Text()
		}
	}()
	return out
}

// refusal is what a plugin was refused, and what would grant it, in the node's words.
type refusal struct{ plugin, text, grant string }

// refused tells of something that a plugin was refused, and adds what would grant it to the file if that
// is wanted. It is over early when ctx is.
func (a *grantAsker) refused(ctx context.Context, r refusal) {
	if a.settled[r.text] {
		return
	}
	switch {
	case a.file == "":
		a.out.say("grant", r.text+", to the configuration of the node")
	case a.answers == nil:
		a.out.say("grant", r.text+", to "+a.file)
	default:
		a.out.say("grant", r.text)
		wanted, answered := a.ask(ctx, r)
		if !answered {
			return // and is asked again
		}
		a.settle(wanted, r)
	}
	a.settled[r.text] = true
}

// ask asks whether a grant is added; answered: there was time for an answer.
func (a *grantAsker) ask(ctx context.Context, r refusal) (wanted, answered bool) {
	if _, err := a.changed(r); err != nil {
		a.out.say("grant", "it cannot be added to "+a.file+" for you: "+err.Error())
		return false, true
	}
	if a.always {
		return true, true
	}
	a.forget()
	a.out.say("grant", "add it to "+a.file+"? [y/N/always]")
	select {
	case <-ctx.Done():
		return false, false
	case answer := <-a.answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "always":
			a.always = true
			return true, true
		case "y", "yes":
			return true, true
		}
		a.out.say("grant", "it is not added")
		return false, true
	}
}

// forget takes what was entered before the question: it is no answer.
func (a *grantAsker) forget() {
	for {
		select {
		case _, more := <-a.answers:
			if !more {
				return
			}
		default:
			return
		}
	}
}

// changed is the file with a grant added.
func (a *grantAsker) changed(r refusal) ([]byte, error) {
	text, err := os.ReadFile(a.file)
	if err != nil {
		return nil, err
	}
	return config.AddGrant(a.file, text, r.plugin, r.grant)
}

// settle adds a grant, if it is wanted: that the file has changed has the node read it.
func (a *grantAsker) settle(wanted bool, r refusal) {
	if !wanted {
		return
	}
	text, err := a.changed(r)
	if err == nil {
		err = replaceText(a.file, text)
	}
	if err != nil {
		a.out.say("grant", err.Error())
		return
	}
	a.out.say("grant", "it is added to "+a.file)
}

// replaceText puts another text into a file that is there: who watches it sees it whole.
func replaceText(file string, text []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return durable.Replace(file, text, info.Mode().Perm())
}

// watchPlugin tells of what a plugin is refused, and of calls that do not return, until it is
// stopped.
func (f *following) watchPlugin(file string) {
	told := map[runningKey]time.Duration{}
	for {
		var plugins []catalog.PluginStatus
		_, err := f.client.Raw().Query("/v1/agent/plugins", &plugins, (&nomad.QueryOptions{}).WithContext(f.ctx))
		if err != nil {
			if f.ctx.Err() == nil {
				f.out.say("dev", err.Error())
			}
			return
		}
		for _, p := range plugins {
			if filepath.Base(p.File) != filepath.Base(file) {
				continue
			}
			for i, grant := range p.Stats.WouldGrant {
				f.grants.refused(f.ctx, refusal{p.Name, p.Stats.NotGranted[i], grant})
			}
			for _, line := range stillRunning(p.Stats.Running, told, time.Now()) {
				f.out.say("plugin", p.Name+line)
			}
		}
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(grantLook):
		}
	}
}
