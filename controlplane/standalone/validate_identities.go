package standalone

import (
	"fmt"
	"path/filepath"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// maxIdentities bounds the identities of a task: each is a file, and a timer.
const maxIdentities = 32

func (v *validation) identities(t *nomad.Task) {
	all := structs.TaskIdentities(t)
	if len(all) > maxIdentities {
		v.fault("identity: there are %d identities: a task can have %d", len(all), maxIdentities)
	}
	names := map[string]bool{}
	for _, w := range all {
		v.in(fmt.Sprintf("identity %q", w.Name), func() {
			switch {
			case names[w.Name] && w.Name == structs.DefaultIdentity:
				v.fault("Duplicate default identities found")
			case names[w.Name]:
				v.fault("there are two of that name")
			}
			names[w.Name] = true
			v.identity(w)
		})
	}
}

// identity has Nomad's texts.
func (v *validation) identity(w *nomad.WorkloadIdentity) {
	if !identifier.MatchString(w.Name) {
		v.fault("invalid name %q. Must match regex %s", w.Name, identifier)
	}
	for i, aud := range w.Audience {
		if aud == "" {
			v.fault("an empty string is an invalid audience (%d)", i+1)
		}
	}
	switch w.ChangeMode {
	case "", "noop", "restart":
		if w.ChangeSignal != "" {
			v.fault(`can only use change_signal=%q with change_mode="signal"`, w.ChangeSignal)
		}
	case "signal":
		if w.ChangeSignal == "" {
			v.fault(`change_signal must be specified when using change_mode="signal"`)
		}
	default:
		v.fault("invalid change_mode: %s", w.ChangeMode)
	}
	if w.TTL > 0 && w.Name == structs.DefaultIdentity {
		v.fault("ttl for default identity not yet supported")
	}
	if w.TTL < 0 {
		v.fault("ttl must be >= 0: it is %s", w.TTL)
	}
	switch {
	case w.Filepath != "" && !w.File:
		v.fault("file parameter must be true in order to specify filepath")
	case !filepath.IsLocal(strings.TrimPrefix(w.Filepath, "/")) && w.Filepath != "":
		v.fault("filepath: %q is outside the task's directory", w.Filepath)
	}
}

// identityAdvice has Nomad's texts about the named identities of a task, and one about files that
// are not where secrets are.
func identityAdvice(t *nomad.Task) (texts []string) {
	for _, w := range structs.TaskIdentities(t) {
		if p := strings.TrimPrefix(filepath.Clean(w.Filepath), "/"); w.Filepath != "" && !strings.HasPrefix(p, "secrets/") {
			texts = append(texts, fmt.Sprintf("Identity[%s] the file %s is outside the secrets directory, where others than the task may read it", w.Name, w.Filepath))
		}
	}
	for _, w := range t.Identities {
		add := func(format string, args ...any) {
			texts = append(texts, fmt.Sprintf("Identity[%s] ", w.Name)+fmt.Sprintf(format, args...))
		}
		switch n := len(w.Audience); {
		case n == 0:
			add("identities without an audience are insecure")
		case n > 1:
			add("while multiple audiences is allowed, it is more secure to use 1 audience per identity")
		}
		if w.TTL == 0 {
			add("identities without an expiration are insecure")
		}
		if w.Env && w.ChangeMode != "restart" {
			add(`using env=true without change_mode="restart" may result in task not getting updated identity`)
		}
	}
	return texts
}
