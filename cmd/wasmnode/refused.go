package main

import (
	"fmt"
	"strings"

	"github.com/wasmnode/wasmnode/internal/absent"
)

// Why commands of Nomad's are refused.
const (
	noPeers      = absent.Peers
	noGossip     = absent.Gossip
	noRaftLog    = "there is no log of Raft's: type: wasmnode operator snapshot save FILE"
	ownSnapshots = "a snapshot is of this program's own form: type: wasmnode operator snapshot inspect FILE"
	noConsul     = "there is no Consul: jobs that ask for it are refused"
	noLogin      = absent.Login + ": type: wasmnode acl token create"
	noVault      = "there is no Vault: jobs that ask for it are refused"
)

// refusals are commands of Nomad's that nothing here can be asked for, with what they do there.
var refusals = map[string]struct{ does, why string }{
	"acl auth-method create":           {"Make a way to log in", noLogin},
	"acl auth-method delete":           {"Remove a way to log in", noLogin},
	"acl auth-method info":             {"Show a way to log in", noLogin},
	"acl auth-method list":             {"List the ways to log in", noLogin},
	"acl auth-method update":           {"Change a way to log in", noLogin},
	"acl binding-rule create":          {"Make a rule of who is who", noLogin},
	"acl binding-rule delete":          {"Remove a rule of who is who", noLogin},
	"acl binding-rule info":            {"Show a rule of who is who", noLogin},
	"acl binding-rule list":            {"List the rules of who is who", noLogin},
	"acl binding-rule update":          {"Change a rule of who is who", noLogin},
	"login":                            {"Log in by another service", noLogin},
	"node identity get":                {"Show the node's identity", absent.Introduction},
	"node identity renew":              {"Renew the node's identity", absent.Introduction},
	"node intro create":                {"Make a token that introduces a node", absent.Introduction},
	"operator gossip keyring generate": {"Draw a key", noGossip},
	"operator gossip keyring install":  {"Give all servers a key", noGossip},
	"operator gossip keyring list":     {"List the keys", noGossip},
	"operator gossip keyring remove":   {"Remove a key", noGossip},
	"operator gossip keyring use":      {"Use another key", noGossip},
	"operator raft info":               {"Show what a log of Raft's is of", noRaftLog},
	"operator raft logs":               {"Show what is in a log of Raft's", noRaftLog},
	"operator raft migrate-backend":    {"Move a log of Raft's", noRaftLog},
	"operator raft state":              {"Show what a log of Raft's makes", noRaftLog},
	"operator snapshot redact":         {"Take keys out of a snapshot", ownSnapshots},
	"operator snapshot state":          {"Show all that is in a snapshot", ownSnapshots},
	"server force-leave":               {"Have a server leave", noPeers},
	"server join":                      {"Join other servers", noPeers},
	"setup consul":                     {"Set Consul up for Nomad", noConsul},
	"setup vault":                      {"Set Vault up for Nomad", noVault},
}

// refusedCommand says why one of them is not done.
type refusedCommand struct {
	meta
	name, does, why string
}

// Synopsis implements [subcommand].
func (c *refusedCommand) Synopsis() string { return c.does + " (refused)" }

// Help implements [subcommand].
func (c *refusedCommand) Help() string {
	return fmt.Sprintf(`Usage: wasmnode %s

  Is refused: %s.`, c.name, c.why)
}

// Run implements [subcommand]. Options are not looked at: they are of what is refused.
func (c *refusedCommand) Run(args []string) int {
	f := c.flags(c.name)
	for _, arg := range args {
		if name := strings.TrimLeft(arg, "-"); name != arg && (name == "h" || name == "help") {
			c.ui.Output(c.Help())
			return 0
		}
	}
	return c.fail(f, fmt.Errorf("%s: %s", c.name, c.why))
}
