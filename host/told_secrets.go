package host

import "github.com/wasmnode/wasmnode/internal/secrets"

// tooManySecrets is in the place of a text that may have a secret which is not looked for.
const tooManySecrets = "(not shown: its task has more secrets than are masked)"

// shown is a text of the guest's for logs, events and errors, with the secrets of the call in progress
// masked: see [instance.known]. Cut: it may end within one.
func (i *instance) shown(text string, cut bool) string {
	if text == "" || i.plugin.host.cfg.Unmasked && !i.masked {
		return text
	}
	if i.secrets == nil {
		i.secrets = i.known()
	}
	if i.secrets.Over {
		return tooManySecrets
	}
	return i.secrets.Line(text, cut)
}

// known are the secrets of the task that the call is about, and of the plugin's configuration: variables
// and texts that are named like a secret, or are one by the plugin's schemas, and private keys.
func (i *instance) known() *secrets.Masker {
	k := &secrets.Masker{Names: i.plugin.secretNames(), Lines: true}
	k.Object(i.config)
	if i.scope == nil {
		return k
	}
	task := i.scope.Config
	for _, env := range []map[string]string{task.GetEnv(), task.GetDeviceEnv()} {
		for name, value := range env {
			k.Variable(name, value)
		}
	}
	k.Object(task.GetDriverConfig())
	return k
}
