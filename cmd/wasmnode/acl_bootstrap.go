package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

type aclBootstrapCommand struct{ meta }

// Synopsis implements [subcommand].
func (*aclBootstrapCommand) Synopsis() string { return "Make the first token" }

// Help implements [subcommand].
func (*aclBootstrapCommand) Help() string {
	return `Usage: wasmnode acl bootstrap [options] [FILE]

  Makes the first token of a node whose configuration has acl { enabled = true },
  and prints its secret, this once. It may do everything. It is made on the node
  itself, and one time.

  FILE has the secret, a UUID, that the token is to have; "-" is standard input.

  When the secret is lost: write the index that this command tells into
  DATA_DIR/server/acl-bootstrap-reset and run it again.

Options:
` + commonOptions
}

// Run implements [subcommand].
func (c *aclBootstrapCommand) Run(args []string) int {
	f := c.flags("acl bootstrap")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	secret := ""
	if path := f.Arg(0); path != "" {
		var err error
		if secret, err = readSecret(path); err != nil {
			return c.fail(f, err)
		}
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	token, _, err := client.ACLTokens().BootstrapOpts(secret, nil)
	if err != nil {
		return c.fail(f, err)
	}
	return c.printToken(f, token)
}

// readSecret reads the secret that a file has, or standard input.
func readSecret(path string) (string, error) {
	const enough = 1 << 10
	from := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, enough))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s has no secret in it", path)
	}
	return secret, nil
}

// printToken prints a token for people, or for programs.
func (m meta) printToken(f *flags, t *nomad.ACLToken) int {
	if *f.json {
		return m.printJSON(t)
	}
	expiry := "<none>"
	if t.ExpirationTime != nil {
		expiry = t.ExpirationTime.UTC().String()
	}
	pairs := [][2]string{{"Accessor ID", t.AccessorID}}
	if t.SecretID != "" { // the node has forgotten it of others
		pairs = append(pairs, [2]string{"Secret ID", t.SecretID})
	}
	pairs = append(pairs, [][2]string{
		{"Name", t.Name},
		{"Type", t.Type},
		{"Global", fmt.Sprint(t.Global)},
		{"Create Time", t.CreateTime.UTC().String()},
		{"Expiry Time", expiry},
		{"Create Index", fmt.Sprint(t.CreateIndex)},
		{"Modify Index", fmt.Sprint(t.ModifyIndex)},
	}...)
	if t.Type == "management" {
		m.pairs(append(pairs, [2]string{"Policies", "n/a"}, [2]string{"Roles", "n/a"}))
		return 0
	}
	m.pairs(append(pairs, [2]string{"Policies", fmt.Sprint(t.Policies)}))
	m.ui.Output("\nRoles")
	if len(t.Roles) == 0 {
		m.ui.Output("<none>")
		return 0
	}
	rows := [][]string{{"ID", "Name"}}
	for _, r := range t.Roles {
		rows = append(rows, []string{r.ID, r.Name})
	}
	m.table(rows)
	return 0
}
