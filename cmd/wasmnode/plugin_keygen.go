package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// envKeyPassword is the variable with the password of a private key.
const envKeyPassword = "WASMNODE_KEY_PASSWORD"

type pluginKeygenCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginKeygenCommand) Synopsis() string { return "Make a key pair to sign plugins with" }

// Help implements [subcommand].
func (*pluginKeygenCommand) Help() string {
	return `Usage: wasmnode plugin keygen [options]

  Makes a key pair: NAME.key, which "plugin sign" signs with and which is to be kept secret,
  and NAME.pub, which goes to everybody who verifies. Files that are there are not replaced.
  They have the forms of those that cosign makes.

  The private key is encrypted with a password, which is asked for, or is that of the
  variable WASMNODE_KEY_PASSWORD.

Options:

  -o=NAME   The name of the files without their endings. Without it, plugins.
  -json     Print JSON.`
}

// keyPair is what was made, for programs.
type keyPair struct{ PrivateKey, PublicKey, ID string }

// Run implements [subcommand].
func (c *pluginKeygenCommand) Run(args []string) int {
	f := c.flags("plugin keygen")
	name := f.String("o", "plugins", "")
	if !c.parse(f, args, 0, 0, c.Help()) {
		return 1
	}
	made, err := c.makeKeys(*name)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(made)
	}
	c.pairs([][2]string{{"Private key", made.PrivateKey}, {"Public key", made.PublicKey}, {"ID", made.ID}})
	return 0
}

// makeKeys makes a key pair in two files.
func (c *pluginKeygenCommand) makeKeys(name string) (made keyPair, err error) {
	made.PrivateKey, made.PublicKey = name+".key", name+".pub"
	for _, file := range []string{made.PrivateKey, made.PublicKey} {
		if _, err := os.Lstat(file); err == nil {
			return made, fmt.Errorf("%s is there: name others with -o, or remove it if nothing was signed with it", file)
		}
	}
	key, err := pluginsign.NewKey()
	if err != nil {
		return made, err
	}
	public, err := key.Public(made.PublicKey)
	if err != nil {
		return made, err
	}
	made.ID = public.ID
	password, err := c.askPassword(true)
	if err != nil {
		return made, err
	}
	if len(password) == 0 {
		c.ui.Warn("Warning: the password is empty: whoever gets " + made.PrivateKey + " can sign with it")
	}
	secret, err := key.PEM(password)
	if err != nil {
		return made, err
	}
	open, err := public.PEM()
	if err != nil {
		return made, err
	}
	if err := create(made.PrivateKey, secret, 0o600); err != nil {
		return made, err
	}
	return made, create(made.PublicKey, open, 0o644)
}

// create writes a file that is not there.
func create(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// askPassword returns the password of a private key: of the environment, else of a person, who
// says that of a new one twice.
func (m meta) askPassword(twice bool) ([]byte, error) {
	if password, set := os.LookupEnv(envKeyPassword); set {
		return []byte(password), nil
	}
	terminal := int(os.Stdin.Fd())
	if !term.IsTerminal(terminal) {
		return nil, fmt.Errorf("the key has a password, and nobody is here to be asked: set %s", envKeyPassword)
	}
	ask := func(what string) ([]byte, error) {
		fmt.Fprint(m.ui.err, what)
		defer fmt.Fprintln(m.ui.err)
		return readPassword(terminal)
	}
	first, err := ask("Password of the private key: ")
	if err != nil || !twice {
		return first, err
	}
	second, err := ask("Once more: ")
	if err == nil && !bytes.Equal(first, second) {
		err = errors.New("the two passwords differ")
	}
	return first, err
}

// readPassword reads a line that is not shown. When it is interrupted, the terminal shows again
// what is typed, and what reads from it is left behind.
func readPassword(terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	ctx, stop := interruptible()
	defer stop()
	var line []byte
	read := make(chan error, 1)
	go func() {
		var err error
		line, err = term.ReadPassword(terminal)
		read <- err
	}()
	select {
	case err := <-read:
		return line, err
	case <-ctx.Done():
		if err := term.Restore(terminal, before); err != nil {
			return nil, err
		}
		return nil, errInterrupted
	}
}
