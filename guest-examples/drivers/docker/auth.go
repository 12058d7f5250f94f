package main

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	nodelog "github.com/wasmnode/wasmnode/sdk/go/log"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
)

const (
	// hub is the registry of images without one, under the name that Docker writes it with.
	hub = "index.docker.io"
	// maxSetting bounds a file that a setting names, as a configuration of Docker's.
	maxSetting = 1 << 20
)

// checkAuth refuses what of the plugin's auth makes no sense.
func checkAuth(auth config.Value) error {
	if helper := auth.Get("helper").Text(); helper != "" && !isHelper(helper) {
		return abi.NewError(abi.InvalidArgument, "auth.helper: "+strconv.Quote(helper)+" is not what follows docker-credential- in the name of a program")
	}
	if file := auth.Get("config").Text(); file != "" && !path.IsAbs(file) {
		return abi.NewError(abi.InvalidArgument, "auth.config: "+file+" is not an absolute path")
	}
	return nil
}

// credentials are those to pull an image with, as a header of the engine's API: the task's, else
// those that the plugin's auth has for the registry.
func (d *docker) credentials(ctx context.Context, c config.Value, r reference) ([]*plainhttp.Header, error) {
	auth := c.Get("auth")
	if auth.Get("username").Text() != "" || auth.Get("password").Text() != "" {
		return login{
			username: auth.Get("username").Text(), password: auth.Get("password").Text(),
			email: auth.Get("email").Text(), server: auth.Get("server_address").Text(),
		}.header(), nil
	}
	found, err := d.loginFor(ctx, registryOf(r.repository))
	switch {
	case err == nil:
		return found.header(), nil
	case c.Get("auth_soft_fail").Bool():
		nodelog.Warn(ctx, "an image is pulled without credentials", "image", r.String(), "error", err.Error())
		return nil, nil
	}
	return nil, about("Failed to find docker auth for repo "+r.repository, err)
}

// loginFor is what the plugin's auth has for a registry: its file of Docker's, the helper that this
// names, or else its own helper. Nothing is no error.
func (d *docker) loginFor(ctx context.Context, registry string) (l login, err error) {
	auth, named := d.settings.Get("auth"), ""
	if file := auth.Get("config").Text(); file != "" {
		l, named, err = loginFrom(file, registry)
	}
	for _, helper := range []string{named, auth.Get("helper").Text()} {
		if err != nil || l != (login{}) {
			return l, err
		}
		if helper != "" {
			l, err = askHelper(ctx, path.Join(d.settings.Get("helper_directory").Text(), "docker-credential-"+helper), registry)
		}
	}
	return l, err
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

// loginFrom finds what a configuration of Docker's has for a registry, which may be the name of a
// credential helper. Nothing is no error.
func loginFrom(file, registry string) (l login, helper string, err error) {
	text, err := readSetting("auth.config", file)
	if err != nil {
		return login{}, "", err
	}
	c, err := config.Parse(text)
	if err != nil {
		return login{}, "", abi.NewError(abi.FailedPrecondition, "auth.config: "+file+": "+err.Error())
	}
	helper = c.Get("credsStore").Text()
	for _, f := range c.Get("credHelpers").Fields() {
		if hostOf(f.Name) == registry {
			return named(file, f.Value.Text())
		}
	}
	for _, f := range c.Get("auths").Fields() {
		if hostOf(f.Name) != registry {
			continue
		}
		if l := loginOf(f.Value); l != (login{}) {
			l.server = f.Name
			return l, "", nil
		}
	}
	return named(file, helper) // with a store, entries of auths are empty
}

// named checks the name of a helper that a file has.
func named(file, helper string) (login, string, error) {
	if helper != "" && !isHelper(helper) {
		return login{}, "", abi.NewError(abi.FailedPrecondition, "auth.config: "+file+" names a credential helper that is none: "+strconv.Quote(helper))
	}
	return login{}, helper, nil
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

// readSetting reads a file that a setting of the plugin's names, anew each time: credentials and
// certificates are replaced while the node runs.
func readSetting(setting, file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		why := err
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			why = e.Err
		}
		return nil, abi.NewError(abi.FailedPrecondition, setting+": "+file+": "+strings.ToLower(why.Error())+
			`: the plugin sees a file whose directory is granted, grant { fs { read_only = ["`+path.Dir(file)+`"] } }`)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSetting+1))
	if err == nil && len(text) > maxSetting {
		err = abi.NewError(abi.FailedPrecondition, setting+": "+file+" has more than 1 MiB")
	}
	return text, err
}
