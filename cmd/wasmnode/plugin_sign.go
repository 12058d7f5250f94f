package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginSignCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginSignCommand) Synopsis() string { return "Sign a plugin's file, or one in a registry" }

// Help implements [subcommand].
func (*pluginSignCommand) Help() string {
	return `Usage: wasmnode plugin sign -key=KEY [options] FILE
       wasmnode plugin sign -key=KEY [options] oci://REGISTRY/REPOSITORY:TAG

  Signs a plugin's file, into FILE.sig beside it, in the place of a signature that is there;
  or what is in an OCI registry, into the registry, beside other signatures. An agent that
  trusts the public key takes the plugin then, and others that are signed with it. Only a
  plugin is signed.

  Signatures are those of cosign: with FILE.sig, "cosign verify-blob --bundle" verifies, and
  "cosign verify --key" what is in a registry. Nothing is told to anybody but the registry.

Options:

  -key=KEY       The private key, which "plugin keygen" has made, or cosign, or openssl: ECDSA
                 on the curve P-256. It is required. Its password, if it has one, is asked
                 for, or is that of the variable WASMNODE_KEY_PASSWORD.
` + registryOptions + `
  -json          Print JSON.`
}

// signed is what was signed, for programs.
type signed struct{ Signature, Signed, SHA256, KeyID string }

// Run implements [subcommand].
func (c *pluginSignCommand) Run(args []string) int {
	f := c.flags("plugin sign")
	set := registryFlags(f.FlagSet)
	path := f.String("key", "", "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	if *path == "" {
		return c.fail(f, errors.New("with which key? Name the private key with -key; wasmnode plugin keygen makes one"))
	}
	out, err := c.sign(set, *path, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(out)
	}
	c.pairs([][2]string{{"Signed", out.Signed}, {"SHA-256", out.SHA256}, {"Signature", out.Signature}, {"Key ID", out.KeyID}})
	return 0
}

// sign signs a file, or what a reference is to.
func (c *pluginSignCommand) sign(set registrySet, path, what string) (*signed, error) {
	key, err := pluginsign.ReadPrivateKey(path, func() ([]byte, error) { return c.askPassword(false) })
	if err != nil {
		return nil, err
	}
	public, err := key.Public(path)
	if err != nil {
		return nil, err
	}
	out := &signed{KeyID: public.ID}
	if strings.HasPrefix(what, pluginregistry.Scheme) {
		ctx, stop := interruptible()
		defer stop()
		return out, orInterrupted(ctx, signReference(ctx, set, key, what, out))
	}
	return out, signFile(key, what, out)
}

// signFile signs a file, beside it.
func signFile(key *pluginsign.PrivateKey, file string, out *signed) error {
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return err
	}
	spec, err := host.Inspect(wasm, len(wasm))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s, err := key.SignFile(wasm)
	if err != nil {
		return err
	}
	text, err := s.Text()
	if err != nil {
		return err
	}
	out.Signed, out.Signature, out.SHA256 = file, file+pluginsign.Suffix, spec.Digest
	return pluginlock.WriteFile(filepath.Dir(file), filepath.Base(file)+pluginsign.Suffix, text)
}

// signReference signs what is in a registry, there.
func signReference(ctx context.Context, set registrySet, key *pluginsign.PrivateKey, what string, out *signed) error {
	r, err := pluginregistry.Parse(what)
	if err != nil {
		return err
	}
	p, err := set.pull(ctx, r)
	if err != nil {
		return err
	}
	s, err := key.SignManifest(r.Registry+"/"+r.Repository, p.Digest)
	if err != nil {
		return err
	}
	out.Signed, out.Signature, out.SHA256 = r.At(p.Digest), r.SignaturesOf(p.Digest), p.SHA256
	ctx, cancel := context.WithTimeout(ctx, *set.timeout)
	defer cancel()
	return r.AddSignature(ctx, set.config(), p.Digest, pluginregistry.Signature{Payload: s.Payload, Signature: s.Signature})
}
