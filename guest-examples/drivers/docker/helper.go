package main

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

const (
	// helperTime bounds a credential helper, which may ask a server for a token.
	helperTime = time.Minute
	// hubServer is how Docker calls its own registry to a helper.
	hubServer = "https://index.docker.io/v1/"
	// tokenUser is in the place of a user whose secret is a token.
	tokenUser = "<token>"
	// noCredentials is what a helper says that has nothing for a registry.
	noCredentials = "credentials not found"
	// saidOfHelper bounds what is told of a helper that fails.
	saidOfHelper = 256
)

// isHelper reports whether a text is the name of a credential helper: no path, and no option.
func isHelper(name string) bool {
	return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

// askHelper asks a credential helper for what it has for a registry. Nothing is no error.
func askHelper(ctx context.Context, program, registry string) (login, error) {
	server := registry
	if registry == hub {
		server = hubServer
	}
	ended, err := process.Run(ctx, &process.Helper{Command: program, Args: []string{"get"}, Stdin: []byte(server), TimeoutMs: helperTime.Milliseconds()})
	if err != nil {
		return login{}, about("the credential helper "+program, err)
	}
	if ended.ExitCode != 0 || ended.Signal != 0 {
		said := strings.Join(strings.Fields(string(ended.Stdout)+" "+string(ended.Stderr)), " ")
		if strings.Contains(said, noCredentials) {
			return login{}, nil
		}
		return login{}, abi.NewRecoverableError(abi.Unavailable, "the credential helper "+program+" ends with "+strconv.Itoa(int(ended.ExitCode))+
			": "+said[:min(len(said), saidOfHelper)])
	}
	v, err := config.Parse(bytes.TrimSpace(ended.Stdout))
	user, secret := v.Get("Username").Text(), v.Get("Secret").Text()
	switch {
	case err != nil || secret == "": // what it wrote may be a secret
		return login{}, abi.NewError(abi.FailedPrecondition, "the credential helper "+program+" does not answer with a Username and a Secret in JSON")
	case user == tokenUser:
		return login{identity: secret, server: server}, nil
	}
	return login{username: user, password: secret, server: server}, nil
}
