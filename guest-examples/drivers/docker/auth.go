package main

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	nodelog "github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
)

const (
	// hub is the registry of images without one, under the name that Docker writes it with.
	hub = "index.docker.io"
	// maxDockerConfig bounds a configuration of Docker's.
	maxDockerConfig = 1 << 20
)

// checkAuth refuses what of the plugin's auth the driver cannot do.
func checkAuth(auth config.Value) error {
	if helper := auth.Get("helper").Text(); helper != "" {
		return abi.NewError(abi.InvalidArgument, "auth.helper: the credential helper docker-credential-"+helper+
			" is not supported: the plugin runs no programs; auth.config may have the credentials")
	}
	if file := auth.Get("config").Text(); file != "" && !path.IsAbs(file) {
		return abi.NewError(abi.InvalidArgument, "auth.config: "+file+" is not an absolute path")
	}
	return nil
}

// credentials are those to pull an image with, as a header of the engine's API: the task's, else
// those that the plugin's auth.config has for the registry.
func (d *docker) credentials(ctx context.Context, c config.Value, r reference) ([]*plainhttp.Header, error) {
	auth := c.Get("auth")
	if auth.Get("username").Text() != "" || auth.Get("password").Text() != "" {
		return login{
			username: auth.Get("username").Text(), password: auth.Get("password").Text(),
			email: auth.Get("email").Text(), server: auth.Get("server_address").Text(),
		}.header(), nil
	}
	file := d.settings.Get("auth", "config").Text()
	if file == "" {
		return nil, nil
	}
	found, err := loginFrom(file, registryOf(r.repository))
	switch {
	case err == nil:
		return found.header(), nil
	case c.Get("auth_soft_fail").Bool():
		nodelog.Warn(ctx, "an image is pulled without credentials", "image", r.String(), "error", err.Error())
		return nil, nil
	}
	return nil, about("Failed to find docker auth for repo "+r.repository, err)
}

// login is what a registry is told.
type login struct{ username, password, email, server, identity, token string }

// header is nil for nobody.
func (l login) header() []*plainhttp.Header {
	if l == (login{}) {
		return nil
	}
	var o object
	o.text("username", l.username)
	o.text("password", l.password)
	o.text("email", l.email)
	o.text("serveraddress", l.server)
	o.text("identitytoken", l.identity)
	o.text("registrytoken", l.token)
	return []*plainhttp.Header{{Name: "X-Registry-Auth", Value: base64URL(o.encoded())}}
}

// registryOf is the registry of a repository, as Docker tells it from the rest of the name: newer
// engines take one with a capital letter for a registry.
func registryOf(repository string) string {
	first, _, more := strings.Cut(repository, "/")
	if !more || first != "localhost" && !strings.ContainsAny(first, ".:") && strings.ToLower(first) == first {
		return hub
	}
	return hostOf(first)
}

// hostOf is the registry that a configuration of Docker's means by a name.
func hostOf(name string) string {
	if _, rest, found := strings.Cut(name, "://"); found {
		name = rest
	}
	name, _, _ = strings.Cut(name, "/")
	if name == "docker.io" || name == "registry-1.docker.io" {
		return hub
	}
	return name
}

// loginFrom finds what a configuration of Docker's has for a registry. Nothing is no error, but a
// helper's name is.
func loginFrom(file, registry string) (login, error) {
	text, err := readDockerConfig(file)
	if err != nil {
		return login{}, err
	}
	c, err := config.Parse(text)
	if err != nil {
		return login{}, abi.NewError(abi.FailedPrecondition, "auth.config: "+file+": "+err.Error())
	}
	for _, f := range c.Get("credHelpers").Fields() {
		if hostOf(f.Name) == registry {
			return login{}, refusedHelper(file, f.Value.Text())
		}
	}
	for _, f := range c.Get("auths").Fields() {
		if hostOf(f.Name) != registry {
			continue
		}
		if l := loginOf(f.Value); l != (login{}) {
			l.server = f.Name
			return l, nil
		}
	}
	// With a store, entries of auths are empty.
	if store := c.Get("credsStore").Text(); store != "" {
		return login{}, refusedHelper(file, store)
	}
	return login{}, nil
}

func refusedHelper(file, helper string) error {
	return abi.NewError(abi.FailedPrecondition, "auth.config: "+file+" leaves it to the credential helper docker-credential-"+helper+
		", which the plugin does not run")
}

// loginOf reads an entry of auths.
func loginOf(entry config.Value) login {
	l := login{
		username: entry.Get("username").Text(), password: entry.Get("password").Text(), email: entry.Get("email").Text(),
		identity: entry.Get("identitytoken").Text(), token: entry.Get("registrytoken").Text(),
	}
	if both, err := base64.StdEncoding.DecodeString(entry.Get("auth").Text()); err == nil && len(both) > 0 {
		if name, secret, found := strings.Cut(string(both), ":"); found {
			l.username, l.password = name, strings.Trim(secret, "\x00")
		}
	}
	return l
}

// readDockerConfig reads it anew for each pull, as credentials are replaced while the node runs.
func readDockerConfig(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		why := err
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			why = e.Err
		}
		return nil, abi.NewError(abi.FailedPrecondition, "auth.config: "+file+": "+strings.ToLower(why.Error())+
			`: the plugin sees a file whose directory is granted, grant { fs { read_only = ["`+path.Dir(file)+`"] } }`)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxDockerConfig+1))
	if err == nil && len(text) > maxDockerConfig {
		err = abi.NewError(abi.FailedPrecondition, "auth.config: "+file+" has more than 1 MiB")
	}
	return text, err
}
